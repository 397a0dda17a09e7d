"""The ports of the name server: which brokers have which topics, and its keys. Like domain/ports.py, none of them blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.errors import Failure
from domain.nameserver.route import BrokerAddresses, DataVersion, Registration, TopicQueues


class BrokerRoutes(Protocol):
    """Brokers outside this node that have registered, and their topics. `now` is monotonic nanoseconds."""

    def register(self, registration: Registration, now: int) -> bool:
        """Take or renew a registration; False when there is no room for another broker."""

    def renew(self, broker: str, address: str, now: int) -> DataVersion | None:
        """The lease of an address starts anew; its version, or None when it is not registered."""

    def unregister(self, broker: str, broker_id: int, address: str) -> None:
        """A broker takes its leave; harmless when it is not there."""

    def expire(self, now: int) -> None:
        """Drop every lease that is over."""

    def route(self, topic: str) -> tuple[list[TopicQueues], list[BrokerAddresses]]:
        """Queues and brokers of a topic, by broker name; both empty when nobody has it."""

    def brokers(self) -> list[BrokerAddresses]:
        """All brokers, by name."""

    def topics(self, cluster: str = "") -> list[str]:
        """Names of topics that some broker (of `cluster` unless it is "") has, sorted."""

    def drop_topic(self, topic: str, cluster: str = "") -> None:
        """Forget a topic on the brokers of a cluster, "" on all."""

    def master(self, broker: str) -> tuple[str, str]:
        """(address, replication address) of a broker's master, empty when it has none."""

    def set_writable(self, broker: str, writable: bool) -> int:
        """Change the write permission of all topics of a broker; how many there are."""


class NameServerSettings(Protocol):
    """Keys and values by namespace, durable."""

    def put(self, namespace: str, key: str, value: str | None, done: Callable[[Failure | None], None]) -> None:
        """Set a key, or remove it with None. ARGUMENT_ILLEGAL for names and values out of bounds."""

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""

    def all(self, namespace: str) -> dict[str, str]:
        """Key -> value of one namespace."""
