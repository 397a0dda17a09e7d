"""Routes of brokers that register with this name server: leases, topics, expiry (RocketMQ's RouteInfoManager).

A registration ends when it is not renewed within its lease. The topics of a broker are removed with its last address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.nameserver.route import MASTER_ID, BrokerAddresses, DataVersion, Registration, TopicQueues
from domain.topic import PERM_READ_WRITE, PERM_WRITE

BROKERS_MAX: Final = 4_096
"""Broker names; registrations of further ones are refused."""
ROUTES_MAX: Final = 262_144
"""Topics of all brokers together; a registration that would exceed them is refused."""


@dataclass(slots=True)
class BrokerLease:
    """One registered address of a broker.

    registration   what the broker registered, without its topics
    version        version of its topics
    until_ns       end of the lease, monotonic nanoseconds
    """

    registration: Registration
    version: DataVersion
    until_ns: int


@final
class RouteTable:
    """Brokers and their topics.

    Invariant: every broker has at least one address, and the topics of a broker are those that
    its master (or, without one, its lowest id) registered last. `now` is monotonic nanoseconds.

    _leases   broker name -> broker id -> registered address
    _topics   broker name -> topic -> queues: a registration is stored by one call, however many topics it has
    _writable  broker name -> write permission that `set_writable` has given to all its topics
    """

    def __init__(self) -> None:
        self._leases: dict[str, dict[int, BrokerLease]] = {}
        self._topics: dict[str, dict[str, TopicQueues]] = {}
        self._writable: dict[str, bool] = {}

    def register(self, registration: Registration, now: int) -> bool:
        """Add or renew a registration; False when there are too many brokers or topics.

        When the same broker id is registered at another address with a newer state, the call is ignored and returns True.
        """
        ids = self._leases.get(registration.broker)
        if registration.topics:
            others = sum(map(len, self._topics.values()))
            if others + len(registration.topics.keys() - self._topics.get(registration.broker, {}).keys()) > ROUTES_MAX:
                return False
        if ids is None:
            if len(self._leases) >= BROKERS_MAX:
                return False
            ids = self._leases[registration.broker] = {}
        for broker_id in [each for each, lease in ids.items() if lease.registration.address == registration.address]:
            if broker_id != registration.broker_id:
                del ids[broker_id]
        known = ids.get(registration.broker_id)
        if (
            known is not None
            and known.registration.address != registration.address
            and known.version.state > registration.version.state
        ):
            return True
        changed = known is None or known.version != registration.version
        until = now + registration.lease_ms * MILLISECOND_NS
        ids[registration.broker_id] = BrokerLease(replace(registration, topics=None), registration.version, until)
        if changed and registration.topics is not None and registration.broker_id == min(ids):
            self._topics.setdefault(registration.broker, {}).update(registration.topics)
            self._writable.pop(registration.broker, None)
        return True

    def renew(self, broker: str, address: str, now: int) -> DataVersion | None:
        """Renew the lease of an address; the version of its topics, or None when it is not registered."""
        for lease in self._leases.get(broker, {}).values():
            if lease.registration.address == address:
                lease.until_ns = now + lease.registration.lease_ms * MILLISECOND_NS
                return lease.version
        return None

    def unregister(self, broker: str, broker_id: int, address: str) -> None:
        """Remove a registered address; does nothing when the broker id is registered at another one."""
        ids = self._leases.get(broker)
        if ids is None:
            return
        known = ids.get(broker_id)
        if known is not None and known.registration.address == address:
            del ids[broker_id]
        if not ids:
            self._forget(broker)

    def expire(self, now: int) -> None:
        """Remove the registrations whose lease has ended."""
        for broker, ids in list(self._leases.items()):
            for broker_id in [each for each, lease in ids.items() if lease.until_ns <= now]:
                del ids[broker_id]
            if not ids:
                self._forget(broker)

    def _forget(self, broker: str) -> None:
        self._leases.pop(broker, None)
        self._topics.pop(broker, None)
        self._writable.pop(broker, None)

    def route(self, topic: str) -> tuple[list[TopicQueues], list[BrokerAddresses]]:
        """(queues, brokers) of a topic, sorted by broker name; both empty when no broker has the topic."""
        brokers = sorted([broker for broker, topics in self._topics.items() if topic in topics])
        return [self._queues(broker, topic) for broker in brokers], [self._addresses(broker) for broker in brokers]

    def _queues(self, broker: str, topic: str) -> TopicQueues:
        known = self._topics[broker][topic]
        writable = self._writable.get(broker)
        if writable is None:
            return known
        return replace(known, perm=PERM_READ_WRITE if writable else known.perm & ~PERM_WRITE)

    def brokers(self) -> list[BrokerAddresses]:
        """The addresses of all brokers, sorted by name."""
        return [self._addresses(name) for name in sorted(self._leases)]

    def _addresses(self, broker: str) -> BrokerAddresses:
        ids = self._leases[broker]
        first = ids[min(ids)].registration
        addresses = {broker_id: lease.registration.address for broker_id, lease in sorted(ids.items())}
        return BrokerAddresses(first.cluster, broker, addresses, first.zone, first.acting_master)

    def topics(self, cluster: str = "") -> Iterator[str]:
        """Names of the topics of all brokers, or of those of `cluster` unless it is "".

        The table may change during the walk. A topic comes once for each broker that has it.
        """
        for broker in list(self._topics):
            if broker in self._leases and (not cluster or self._in(broker, cluster)):
                yield from list(self._topics.get(broker, ()))

    def drop_topic(self, topic: str, cluster: str = "") -> None:
        """Remove a topic from the brokers of `cluster`, "" for all brokers."""
        for broker, topics in self._topics.items():
            if topic in topics and (not cluster or self._in(broker, cluster)):
                del topics[topic]

    def _in(self, broker: str, cluster: str) -> bool:
        return any(lease.registration.cluster == cluster for lease in self._leases[broker].values())

    def master(self, broker: str) -> tuple[str, str]:
        """(address, replication address) of a broker's master; ("", "") when it has none."""
        lease = self._leases.get(broker, {}).get(MASTER_ID)
        return (lease.registration.address, lease.registration.ha_address) if lease is not None else ("", "")

    def set_writable(self, broker: str, writable: bool) -> int:
        """Change the write permission of all topics of a broker; returns the number of topics."""
        if broker in self._topics:
            self._writable[broker] = writable
        return len(self._topics.get(broker, ()))
