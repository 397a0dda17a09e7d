"""Map of the cluster from the name servers: brokers, topics and their queues; kept up to date while it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.nameserver.route import BrokerAddresses
from domain.ports import Clock
from domain.store.store_ports import State, StateChange
from domain.topic.topic import PERM_READ, PERM_WRITE
from gateway.brokers.broker_links import Brokers
from gateway.brokers.queue_numbers import SPACE, BrokerQueue, Places, places_from
from gateway.brokers.refusal import BrokerAnswerError
from gateway.brokers.route import ApacheRoute, brokers_from, master_of, route_from
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

POLL_NS: Final = SECOND_NS
"""Time between two looks at the name servers."""
USED_NS: Final = 1_800 * SECOND_NS
"""Time for which a topic that was used is kept up to date each second. One that nobody uses is asked for once in such a time,
and forgotten when it is gone."""
REMEMBERED: Final = 512
"""Topics of earlier lives that are asked for at a time."""
LOOKS_MAX: Final = 500
"""Topics whose routes are asked for at one look; with more of them in use, each waits for its turn."""
UNKNOWN_NS: Final = SECOND_NS
"""Time for which a topic that no name server knows is not asked for again."""
TOPICS_MAX: Final = 100_000
"""Topics that are remembered as unknown."""
NO_ROUTE: Final = frozenset({codes.TOPIC_NOT_EXIST, codes.SYSTEM_ERROR})
"""Responses that a name server which was started a moment ago gives while the others know better."""

log = logging.getLogger("headgate.rocketmq")

Known = Callable[[Failure | None], None]


@final
class KnownTopic:
    """A topic that has a route, or had one.

    route     last reported route; None: there is none now
    used_ns   time of its last use, monotonic
    asked_ns  time of the last query of its route, monotonic
    asking    True while a query of its route is in flight
    kept      True when the places are stored
    """

    __slots__ = ("asked_ns", "asking", "kept", "places", "route", "used_ns")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.route: ApacheRoute | None = None
        self.used_ns = 0
        self.asked_ns = 0
        self.asking = False
        self.kept = True


@final
class ClusterMap:
    """Brokers, topics and queues, answered from memory.

    brokers   name -> addresses, as last reported
    is_known  True once a name server has reported its brokers
    _missing  brokers that are not reported any more, but still answer
    """

    def __init__(self, servers: Brokers, clock: Clock, state: State) -> None:
        """`state`: stores the places of queues (gateway.brokers.queue_numbers)."""
        self.brokers: dict[str, BrokerAddresses] = {}
        self.clusters: frozenset[str] = frozenset()
        self.is_known = False
        self._servers = servers
        self._clock = clock
        self._state = state
        self._topics: dict[str, KnownTopic] = {}
        self._loading: dict[str, list[Known]] = {}
        self._unknown: dict[str, int] = {}
        self._followers: list[Callable[[str], None]] = []
        self._walk: list[str] = []
        self._missing: set[str] = set()
        self._fault = ""
        self._asked = False
        self._stopped = False

    def start(self) -> None:
        """Query the brokers and the routes of the topics in use from a name server: now, and every second until `stop`."""
        self._poll()

    def remembered(self, done: Callable[[Sequence[str]], None], start: bytes = b"", found: Sequence[str] = ()) -> None:
        """The names of all topics that this gateway has used, before its last start too."""

        def take(keys: list[bytes] | Failure) -> None:
            if isinstance(keys, Failure):
                done(found)
                return
            names = [*found, *(key.decode() for key in keys)]
            if len(keys) < REMEMBERED:
                done(names)
            else:
                self.remembered(done, keys[-1] + b"\x00", names)

        self._state.keys(SPACE, b"", start, REMEMBERED, take)

    def stop(self) -> None:
        """Send no further queries."""
        self._stopped = True

    def follow(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the name of each topic whose route has changed or gone, and with "" when brokers have changed."""
        self._followers.append(changed)

    def topics(self) -> Sequence[str]:
        """The names of the known topics that have a route."""
        return [name for name, topic in self._topics.items() if topic.route is not None]

    def route(self, topic: str) -> ApacheRoute | None:
        """The last reported route; None: unknown (`ensure` queries it)."""
        found = self._used(topic)
        return None if found is None else found.route

    def queues(self, topic: str) -> Sequence[BrokerQueue]:
        """The queues that the topic has or had; the index in the sequence is the domain's queue id. Empty: unknown."""
        found = self._used(topic)
        return () if found is None else found.places.queues

    def readable(self, topic: str) -> Sequence[int]:
        """Places of queues that can be read now, ascending."""
        found = self._used(topic)
        return () if found is None else found.places.readable

    def writable(self, topic: str) -> Sequence[int]:
        """Places of queues that can be written now, ascending."""
        found = self._used(topic)
        return () if found is None else found.places.writable

    def place(self, topic: str, broker: str, queue_id: int) -> int:
        """The place of a broker's queue; -1: the topic is not known to have it."""
        found = self._used(topic)
        return -1 if found is None else found.places.place(broker, queue_id)

    def brokers_of(self, topic: str, perm: int = PERM_READ) -> Sequence[str]:
        """Names of the brokers on which the topic has queues with all bits of `perm`, in order."""
        route = self.route(topic)
        if route is None:
            return ()
        return [
            each.broker
            for each in route.queues
            if each.perm & perm == perm
            and (not perm & PERM_READ or each.read_queues)
            and (not perm & PERM_WRITE or each.write_queues)
        ]

    def holders(self, topic: str) -> Collection[str]:
        """Names of the brokers that have queues of a topic, as last reported. Does not count as a use of the topic."""
        found = self._topics.get(topic)
        return () if found is None or found.route is None else [each.broker for each in found.route.queues]

    def zone(self, broker: str) -> str:
        """The zone of a broker; "": it reports none."""
        found = self.brokers.get(broker)
        return "" if found is None else found.zone

    def _used(self, name: str) -> KnownTopic | None:
        found = self._topics.get(name)
        if found is not None:
            found.used_ns = self._clock.monotonic_ns()
        return found

    def ensure(self, topic: str, done: Known) -> None:
        """Query a topic unless it is known. `done` gets None when it is known, else the failure.

        TOPIC_NOT_FOUND; STORE_UNAVAILABLE: no name server answers; NOT_SUPPORTED: a static topic.
        """
        found = self._used(topic)
        if found is not None and found.route is not None:
            done(None)
            return
        if self._clock.monotonic_ns() < self._unknown.get(topic, 0):
            done(_not_found(topic))
            return
        waiting = self._loading.get(topic)
        if waiting is not None:
            waiting.append(done)
            return
        self._loading[topic] = [done]
        if found is None:
            self._state.get(SPACE, topic.encode(), lambda value: self._placed(topic, value))
        else:
            self._ask(topic, found)

    def learn(self, topic: str) -> None:
        """Query the route of a topic at once, since the topic was created or changed."""
        self._unknown.pop(topic, None)
        found = self._topics.get(topic)
        if found is not None and not found.asking:
            self._ask(topic, found)

    def _placed(self, name: str, value: bytes | Failure | None) -> None:
        if isinstance(value, Failure):
            self._loaded(name, value)
            return
        self._ask(name, KnownTopic(places_from(value)))

    def _ask(self, name: str, topic: KnownTopic) -> None:
        topic.asking = True
        topic.asked_ns = self._clock.monotonic_ns()
        request = Request(codes.GET_ROUTE, {"topic": name, "acceptStandardJsonOnly": "true"})
        self._servers.ask_nameserver(request, lambda answer: self._routed(name, topic, answer), unless=NO_ROUTE)

    def _routed(self, name: str, topic: KnownTopic, answer: Frame | Failure) -> None:
        topic.asking = False
        if isinstance(answer, Failure):
            self._loaded(name, answer)
        elif answer.code == codes.TOPIC_NOT_EXIST:
            self._gone(name, topic)
        elif answer.code != codes.SUCCESS:
            text = f"the name server does not tell the route of topic {name}: code {answer.code} {answer.remark}"
            self._loaded(name, Failure(ErrorCode.STORE_UNAVAILABLE, text))
        else:
            self._read(name, topic, answer.body)

    def _read(self, name: str, topic: KnownTopic, body: bytes) -> None:
        try:
            route = route_from(body)
        except BrokerAnswerError as error:
            self._faulty(f"the route of topic {name} cannot be read: {error}")
            self._loaded(name, Failure(ErrorCode.STORE_UNAVAILABLE, f"the name server's {self._fault}"))
            return
        if route.static:
            text = f"topic {name} is a static topic: its queues move between brokers, which a gateway does not follow"
            self._loaded(name, Failure(ErrorCode.NOT_SUPPORTED, text))
            return
        for broker in route.brokers:
            self._locate(broker)
        if route == topic.route:
            self._loaded(name, None)
            return
        if topic.places.add(route.queues):
            topic.kept = False
        if not topic.kept:
            change = StateChange(SPACE, name.encode(), topic.places.stored())
            self._state.put([change], lambda failure: self._kept(name, topic, route, failure))
        else:
            self._kept(name, topic, route, None)

    def _kept(self, name: str, topic: KnownTopic, route: ApacheRoute, failure: Failure | None) -> None:
        """Use the places, which are durable now: positions may refer to them from now on."""
        if failure is not None:
            self._loaded(name, failure)
            return
        topic.kept = True
        topic.route = route
        topic.used_ns = topic.used_ns or self._clock.monotonic_ns()
        self._topics[name] = topic
        self._unknown.pop(name, None)
        self._loaded(name, None)
        self._notify(name)

    def _gone(self, name: str, topic: KnownTopic) -> None:
        """Drop the route of a topic that no name server has (any more)."""
        now = self._clock.monotonic_ns()
        if len(self._unknown) >= TOPICS_MAX:
            self._unknown = {each: until for each, until in self._unknown.items() if until > now}
        if len(self._unknown) < TOPICS_MAX:
            self._unknown[name] = now + UNKNOWN_NS
        had = topic.route is not None
        topic.route = None
        topic.places.close()
        self._loaded(name, _not_found(name))
        if had:
            self._notify(name)

    def _loaded(self, name: str, failure: Failure | None) -> None:
        for done in self._loading.pop(name, ()):
            done(failure)

    def _poll(self) -> None:
        if self._stopped:
            return
        now = self._clock.monotonic_ns()
        self._clock.call_at(now + POLL_NS, self._poll)
        if not self._asked:
            self._asked = True
            self._servers.ask_nameserver(Request(codes.GET_CLUSTER, {"bname": "any"}), self._clustered)
        self._walk = self._walk or list(self._topics)
        for _ in range(min(LOOKS_MAX, len(self._walk))):
            self._look(self._walk.pop(), now)

    def _look(self, name: str, now: int) -> None:
        """Query the route of a topic again, when that is due. Forget one that is gone and that nobody has used for USED_NS."""
        topic = self._topics.get(name)
        if topic is None or topic.asking:
            return
        is_used = now - topic.used_ns <= USED_NS
        if is_used or now - topic.asked_ns > USED_NS:
            self._ask(name, topic)
        elif topic.route is None:
            del self._topics[name]  # its places stay stored: a topic of this name continues with them

    def _clustered(self, answer: Frame | Failure) -> None:
        self._asked = False
        if isinstance(answer, Failure):
            self._faulty(answer.text)
            return
        if answer.code != codes.SUCCESS:
            self._faulty(f"the name server does not tell its brokers: code {answer.code} {answer.remark}")
            return
        try:
            found = brokers_from(answer.body)
        except BrokerAnswerError as error:
            self._faulty(f"the list of brokers cannot be read: {error}")
            return
        if not found and self.brokers:
            self._faulty("the name server has forgotten all brokers; those that were known are asked further")
            return
        self._fault = ""
        self.is_known = True
        before, self.brokers = self.brokers, {each.broker: each for each in found}
        self.clusters = frozenset(each.cluster for each in found)
        for each in found:
            self._locate(each)
        self._missing = {name for name in (*before, *self._missing) if name not in self.brokers}
        for name in [name for name in self._missing if self._servers.waits(name)]:
            self._missing.discard(name)
            self._servers.locate(name, "")
        if before != self.brokers:
            self._notify("")

    def _locate(self, broker: BrokerAddresses) -> None:
        """A broker without a master keeps its address: its slaves are not written, and the master may come back."""
        master = master_of(broker)
        if master:
            self._servers.locate(broker.broker, master)

    def _notify(self, name: str) -> None:
        for changed in self._followers:
            changed(name)

    def _faulty(self, text: str) -> None:
        """Log a fault of the name servers, once for each reason."""
        if text != self._fault:
            self._fault = text
            log.warning("%s", text)

    @property
    def fault(self) -> str:
        """The fault of the name servers; "": none."""
        return self._fault


def _not_found(topic: str) -> Failure:
    return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} has no route at the name servers")
