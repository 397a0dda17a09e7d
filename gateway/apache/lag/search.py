"""The groups of a cluster and what they read, asked of its brokers topic by topic: QUERY_TOPIC_CONSUME_BY_WHO (300).

A broker names the groups that have a position in a topic, and those that are online and subscribe to it, whoever serves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.address import DLQ_PREFIX, RETRY_PREFIX, is_group, is_system_group, is_system_topic, retry_topic
from domain.errors import Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.apache.lag.group_topics import GroupTopics
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.document import value_in
from gateway.brokers.refusal import BrokerAnswerError
from gateway.brokers.route import names_from, route_from
from gateway.link.link import Answered
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

PAUSE_NS: Final = 200 * MILLISECOND_NS
"""Time between two topics: a name server and each broker get five questions a second."""
PERIOD_NS: Final = 30 * SECOND_NS
"""Time between the begins of two searches, unless the first takes longer."""
TOPICS_MAX: Final = 100_000
"""Topics that one search looks at."""

Readers = Callable[[set[str], bool], None]


@final
class GroupSearch:
    """Search for the groups that read each topic, one topic after the other, without end; the results go to `GroupTopics`.

    _left      topics that this round has still to examine
    _began_ns  start of the round, monotonic
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, pairs: GroupTopics) -> None:
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._pairs = pairs
        self._left: list[str] = []
        self._began_ns = 0
        self._stopped = False

    def start(self) -> None:
        """Begin a moment from now, and go on until `stop`."""
        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._begin)

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True

    def _begin(self) -> None:
        if not self._stopped:
            self._began_ns = self._clock.monotonic_ns()
            self._servers.ask_nameserver(Request(codes.GET_TOPICS, {"bname": "any"}), self._listed)

    def _listed(self, answer: Frame | Failure) -> None:
        """The name server has reported all topics."""
        if isinstance(answer, Frame) and answer.code == codes.SUCCESS:
            try:
                names = names_from(answer.body)
            except BrokerAnswerError:
                names = []
            # Brokers make topics that have their names and that of the cluster.
            own = {*self._cluster.brokers, *self._cluster.clusters}
            self._left = [name for name in names if name not in own and is_read(name)][:TOPICS_MAX]
            if names:
                self._pairs.keep(set(self._left))
        self._next()

    def _next(self) -> None:
        if self._stopped:
            return
        if not self._left:
            due_ns = max(self._began_ns + PERIOD_NS, self._clock.monotonic_ns() + PAUSE_NS)
            self._clock.call_at(due_ns, self._begin)
            return
        topic = self._left.pop()
        request = Request(codes.GET_ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})
        self._servers.ask_nameserver(request, partial(self._routed, topic))

    def _later(self) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, self._next)

    def _routed(self, topic: str, answer: Frame | Failure) -> None:
        """The name server has reported the brokers of a topic."""
        holders: list[str] = []
        if isinstance(answer, Frame) and answer.code == codes.SUCCESS:
            try:
                route = route_from(answer.body)
                holders = [] if route.static else [each.broker for each in route.queues if each.read_queues]
            except BrokerAnswerError:
                pass
        if holders:
            ask_readers(self._servers, topic, holders, partial(self._read, topic, holders))
        else:
            self._later()

    def _read(self, topic: str, holders: Sequence[str], groups: set[str], complete: bool) -> None:
        """The brokers have reported the groups. Groups that a now silent broker reported earlier are kept."""
        known = groups if complete else groups | self._pairs.readers(topic)
        self._pairs.name(topic, holders, _readers(topic, known))
        self._later()


def ask_readers(servers: Brokers, topic: str, holders: Sequence[str], done: Readers) -> None:
    """Ask all brokers that have a topic for the groups that read it; `done` gets these, and True when all have answered."""

    def ask(broker: str, answered: Answered) -> None:
        servers.ask(broker, Request(codes.GET_CONSUMERS, {"topic": topic, "bname": broker}), answered)

    def asked(answers: dict[tuple[str], Frame], _: Failure | None) -> None:
        bodies = [answer.body for answer in answers.values() if answer.code == codes.SUCCESS]
        done({group for body in bodies for group in groups_in(body)}, len(bodies) == len(holders))

    FanIn(ask, asked).start((broker,) for broker in holders)


def is_read(topic: str) -> bool:
    """True for topics whose lag is reported: those that clients send to, and retry topics."""
    return topic.startswith(RETRY_PREFIX) or not (topic.startswith(DLQ_PREFIX) or is_system_topic(topic))


def _readers(topic: str, groups: set[str]) -> set[str]:
    """A retry topic is read by its group. One of a group and a topic counts with that topic (`ClusterLagWalk`)."""
    if topic.startswith(RETRY_PREFIX):
        return {group for group in groups if retry_topic(group) == topic}
    return groups


def groups_in(body: bytes) -> set[str]:
    """RocketMQ's GroupList -> the groups, without those of the system and without names that no group has."""
    found = value_in(body)
    names = found.get("groupList") if isinstance(found, dict) else None
    return {
        name
        for name in (names if isinstance(names, list) else ())
        if isinstance(name, str) and is_group(name) and not is_system_group(name)
    }
