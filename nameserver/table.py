"""Routes of brokers that register with this name server: leases, topics, expiry (RocketMQ's RouteInfoManager).

A registration ends when it is not renewed within its lease. The topics of a broker are removed with its last address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.nameserver.route import (
    MASTER_ID,
    BrokerAddresses,
    DataVersion,
    RegisterOutcome,
    Registration,
    TopicPage,
    TopicQueues,
)
from domain.topic.topic import PERM_READ_WRITE, PERM_WRITE
from nameserver.broker_topics import BrokerTopics

BROKERS_MAX: Final = 4_096
"""Broker names; registrations of further ones are refused."""
REPLICAS_MAX: Final = 64
"""Addresses of one broker."""
ROUTES_MAX: Final = 262_144
"""Default of the topics of all brokers together; further ones are refused. Each takes some 100 bytes."""


@dataclass(slots=True)
class BrokerLease:
    """One registered address of a broker.

    registration   the registration of the broker, without its topics
    until_ns       end of the lease, monotonic nanoseconds
    holder         the connection by which it was registered
    next_page      page of the whole table that is to come next; -1: none
    """

    registration: Registration
    version: DataVersion
    until_ns: int
    holder: object
    next_page: int = -1


@final
class RouteTable:
    """Brokers and their topics.

    Invariant: every broker has at least one address, and the topics of a broker are those that
    its master (or, without one, its lowest id, if it has any) registered last. `now` is monotonic nanoseconds.

    _leases    broker name -> broker id -> registered address
    _topics    broker name -> its topics: a registration is stored by one call, however many topics it has
    _writable  broker name -> write permission that `set_writable` has given to all its topics
    """

    def __init__(self, routes_max: int = ROUTES_MAX) -> None:
        self._routes_max = routes_max
        self._leases: dict[str, dict[int, BrokerLease]] = {}
        self._topics: dict[str, BrokerTopics] = {}
        self._writable: dict[str, bool] = {}

    def register(self, registration: Registration, now: int, holder: object = None) -> RegisterOutcome:
        """Add or renew a registration.

        MISFIT: a broker that is not registered has sent one topic; that is a change of a registration that is not here.
        When the same broker id is registered at another address with a newer state, the call is ignored.
        """
        topics = registration.topics
        if not self._has_room(registration, topics or {}):
            return RegisterOutcome.FULL
        known = self._known(registration)
        if known is None and topics is not None and len(topics) == 1:
            self._tidy(registration.broker)
            return RegisterOutcome.MISFIT
        if known is not None and self._is_older(registration, known):
            return RegisterOutcome.TAKEN
        changed = known is None or known.version != registration.version
        self._lease(registration, registration.version, now, holder)
        if changed and topics is not None and self._is_source(registration, topics):
            self._topics.setdefault(registration.broker, BrokerTopics()).update(topics)
            self._writable.pop(registration.broker, None)
        return RegisterOutcome.TAKEN

    def register_page(self, registration: Registration, page: TopicPage, now: int, holder: object = None) -> RegisterOutcome:
        """Add or renew a registration with a page of topics. The version is known once the last page has come."""
        broker = registration.broker
        if not self._has_room(registration, page.topics):
            return RegisterOutcome.FULL
        known = self._known(registration)
        if known is not None and self._is_older(registration, known):
            return RegisterOutcome.TAKEN
        version = known.version if known is not None else DataVersion()
        if page.base is None:
            fits = page.number == 0 or (known is not None and known.next_page == page.number)
        else:
            fits = known is not None and version == replace(registration.version, counter=page.base)
        if not fits:
            self._tidy(broker)
            return RegisterOutcome.MISFIT
        if page.last:
            version = registration.version
        elif page.base is None:
            version = DataVersion(registration.version.state)  # no version that any broker has, and as new as this one
        lease = self._lease(registration, version, now, holder)
        lease.next_page = page.number + 1 if page.base is None and not page.last else -1
        if self._is_source(registration, page.topics):
            self._topics.setdefault(broker, BrokerTopics()).take(page)
            if known is None or known.version != version:
                self._writable.pop(broker, None)
        return RegisterOutcome.TAKEN

    def _tidy(self, broker: str) -> None:
        """Forget a broker that has no address."""
        if not self._leases[broker]:
            self._forget(broker)

    def _has_room(self, registration: Registration, topics: Mapping[str, TopicQueues]) -> bool:
        """True when a broker may be registered with these topics beside those that it has."""
        broker = registration.broker
        ids = self._leases.get(broker)
        if ids is None and len(self._leases) >= BROKERS_MAX:
            return False
        if ids is not None and registration.broker_id not in ids and len(ids) >= REPLICAS_MAX:
            return False
        known = self._topics.get(broker)
        added = len(topics) if known is None else known.added(topics)
        return not added or self.route_count + added <= self._routes_max

    def _known(self, registration: Registration) -> BrokerLease | None:
        """The lease of the broker id, after other ids with the same address have been removed."""
        ids = self._leases.setdefault(registration.broker, {})
        for broker_id in [each for each, lease in ids.items() if lease.registration.address == registration.address]:
            if broker_id != registration.broker_id:
                del ids[broker_id]
        return ids.get(registration.broker_id)

    @staticmethod
    def _is_older(registration: Registration, known: BrokerLease) -> bool:
        return known.registration.address != registration.address and known.version.state > registration.version.state

    def _lease(self, registration: Registration, version: DataVersion, now: int, holder: object) -> BrokerLease:
        until = now + registration.lease_ms * MILLISECOND_NS
        lease = BrokerLease(replace(registration, topics=None), version, until, holder)
        self._leases[registration.broker][registration.broker_id] = lease
        return lease

    def _is_source(self, registration: Registration, topics: Mapping[str, TopicQueues]) -> bool:
        """True when the topics of the broker are those that this id registers.

        A slave without any has those of its master, which stay while there is none.
        """
        own = registration.broker_id
        return (own == MASTER_ID or bool(topics)) and own == min(self._leases[registration.broker])

    @property
    def broker_count(self) -> int:
        """Brokers that are registered."""
        return len(self._leases)

    @property
    def route_count(self) -> int:
        """Topics of all brokers; a topic of two brokers counts twice."""
        return sum(map(len, self._topics.values()))

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
        self._remove(lambda lease: lease.until_ns <= now)

    def release(self, holder: object) -> None:
        """Remove the registrations whose last registration came by `holder`."""
        self._remove(lambda lease: lease.holder is holder)

    def _remove(self, matches: Callable[[BrokerLease], bool]) -> None:
        for broker, ids in list(self._leases.items()):
            for broker_id in [each for each, lease in ids.items() if matches(lease)]:
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
        known = self._topics[broker].get(topic)
        assert known is not None
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
                yield from self._topics[broker].names()

    def drop_topic(self, topic: str, cluster: str = "") -> None:
        """Remove a topic from the brokers of `cluster`, "" for all brokers."""
        for broker, topics in self._topics.items():
            if topic in topics and (not cluster or self._in(broker, cluster)):
                topics.drop(topic)

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
