"""The ports of the name server: which brokers have which topics, and its keys. None of them blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from domain.errors import Failure
from domain.nameserver.route import BrokerAddresses, DataVersion, RegisterOutcome, Registration, TopicPage, TopicQueues


class BrokerRoutes(Protocol):
    """Brokers outside this node that have registered, and their topics.

    now      monotonic nanoseconds
    holder   the connection by which a registration comes
    """

    def register(self, registration: Registration, now: int, holder: object) -> RegisterOutcome:
        """Add or renew a registration."""

    def register_page(self, registration: Registration, page: TopicPage, now: int, holder: object) -> RegisterOutcome:
        """Add or renew a registration with a page of topics."""

    def release(self, holder: object) -> None:
        """Remove every registration whose last registration came by `holder`."""

    def renew(self, broker: str, address: str, now: int) -> DataVersion | None:
        """Renew the lease of one address -> its version, None when it is not registered."""

    def unregister(self, broker: str, broker_id: int, address: str) -> None:
        """Remove a broker. No effect when it is not registered."""

    def expire(self, now: int) -> None:
        """Remove every registration whose lease has ended."""

    def route(self, topic: str) -> tuple[list[TopicQueues], list[BrokerAddresses]]:
        """Queues and brokers of a topic, by broker name; both empty when no broker has it."""

    def brokers(self) -> list[BrokerAddresses]:
        """All brokers, by name."""

    def topics(self, cluster: str = "") -> Iterator[str]:
        """Topics of the brokers of a cluster; "": of all brokers.

        The table may change during the walk. A topic comes once for each broker that has it.
        """

    def drop_topic(self, topic: str, cluster: str = "") -> None:
        """Remove a topic from the brokers of a cluster; "": from all brokers."""

    def master(self, broker: str) -> tuple[str, str]:
        """(address, replication address) of a broker's master, both empty when it has none."""

    def set_writable(self, broker: str, writable: bool) -> int:
        """Change the write permission of all topics of a broker -> how many topics it has."""


class NameServerSettings(Protocol):
    """Durable keys and values by namespace."""

    def put(self, namespace: str, key: str, value: str | None, done: Callable[[Failure | None], None]) -> None:
        """Set a key, or remove it with None. Failure: ARGUMENT_ILLEGAL (a name or a value is out of bounds)."""

    def get(self, namespace: str, key: str) -> str | None:
        """One value, None when the key is absent."""

    def all(self, namespace: str) -> dict[str, str]:
        """Key -> value of one namespace."""


class AnnouncedTopics(Protocol):
    """The topics of this node as it registers them at name servers."""

    @property
    def version(self) -> DataVersion:
        """Version of the table: another one after every change. `counter` counts the changes of this process."""

    def changed_since(self, counter: int) -> Sequence[str] | None:
        """Topics made, changed or deleted since the version with this counter. None: no longer known, it may be all."""

    def topic(self, name: str) -> TopicQueues | None:
        """One topic, None: it does not exist."""

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        """At most `limit` topics by name, from the one behind `name` on."""
