"""`Metadata` over a cluster: topics and groups from memory, changed at the brokers."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from domain.address import is_derived_topic, is_system_topic
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from domain.topic.topic import PERM_READ, PERM_WRITE, Durability, Group, Topic
from gateway.apache.topics.configuration import attributes_from, refused, topic_request, type_of
from gateway.apache.topics.groups import ClusterGroups, answering
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap, Known
from gateway.brokers.refusal import BrokerAnswerError
from gateway.brokers.route import names_from
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

NAMES_NS: Final = 10 * SECOND_NS
"""Time between two queries of the names of all topics."""
NAMES_PER_LOOK: Final = 500
"""Topics whose routes are queried after one query of all names, at most."""
MADE_NS: Final = 100 * MILLISECOND_NS
MADE_TRIES: Final = 50
"""Queries of the route of a new topic at the name servers, MADE_NS apart, at most."""

log = logging.getLogger("headgate.rocketmq")

Done = Callable[[None | Failure], None]


@final
class RocketmqMetadata:
    """`Metadata`. An unknown topic or group has to be queried first: `ensure_topic`, `ClusterGroups.ensure`.

    durability     durability of the cluster, by the settings of its brokers
    known_groups   groups that were used here
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, own: Sequence[str]) -> None:
        """`own`: topics that every cluster has, named after the cluster and its brokers."""
        self.durability = Durability.PAGE
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._own = frozenset(own)
        self._attributes: dict[str, dict[str, str]] = {}
        self._topics: dict[str, Topic] = {}
        self._sorted: list[str] | None = None
        self.known_groups = ClusterGroups(servers, cluster, clock)
        self._followers: list[Callable[[str], None]] = []
        self._names_asked = False
        self._stopped = False
        cluster.follow(self._changed)

    # Asking

    def start(self) -> None:
        """Query the names of all topics, now and every NAMES_NS."""
        self._poll()

    def stop(self) -> None:
        """End the periodic query."""
        self._stopped = True

    def ensure_topic(self, name: str, done: Known) -> None:
        """Query a topic unless it is known. `done` gets None when it is known, else the failure, as in `ClusterMap.ensure`;
        NOT_SUPPORTED for lite topics."""
        if name in self._topics or self._is_own(name):
            done(None)
            return

        def routed(failure: Failure | None) -> None:
            if failure is not None:
                done(failure)
            else:
                self._configure(name, done)

        self._cluster.ensure(name, routed)

    def _configure(self, name: str, done: Known) -> None:
        """Learn the attributes of a topic that has a route."""
        brokers = self._cluster.brokers_of(name, 0)

        def answered(answer: Frame | Failure) -> None:
            if isinstance(answer, Frame) and answer.code == codes.SUCCESS:
                try:
                    self._attributes[name] = attributes_from(answer.body)
                except BrokerAnswerError as error:
                    log.warning("the configuration of topic %s at broker %s: %s", name, brokers[0], error)
            # Brokers before 5.0 do not know the request, and have no attributes.
            self._take(name)
            topic = self._topics.get(name)
            done(None if topic is None else refused(topic) if topic.type == "LITE" else None)

        if name in self._attributes or not brokers:
            self._take(name)
            done(None)
            return
        request = Request(codes.GET_TOPIC, {"topic": name, "lo": "false", "bname": brokers[0]})
        self._servers.ask(brokers[0], request, answered)

    def _poll(self) -> None:
        if self._stopped:
            return
        self._clock.call_at(self._clock.monotonic_ns() + NAMES_NS, self._poll)
        if not self._names_asked:
            self._names_asked = True
            self._servers.ask_nameserver(Request(codes.GET_TOPICS, {"bname": "any"}), self._named)

    def _named(self, answer: Frame | Failure) -> None:
        self._names_asked = False
        if isinstance(answer, Failure) or answer.code != codes.SUCCESS:
            return
        try:
            names = names_from(answer.body)
        except BrokerAnswerError as error:
            log.warning("the names of all topics: %s", error)
            return
        new = [name for name in names if name not in self._topics and not self._is_own(name)]
        for name in new[:NAMES_PER_LOOK]:
            self.ensure_topic(name, lambda _: None)  # it is queried again when it is used

    def _is_own(self, name: str) -> bool:
        """True for topics that the cluster has for its own use."""
        if name in self._own or name in self._cluster.brokers or name in self._cluster.clusters:
            return True
        return is_system_topic(name) and not is_derived_topic(name)

    # Topics

    def _changed(self, name: str) -> None:
        """Follower of the cluster map: the route of a topic has changed or gone. "": brokers have."""
        if not name or self._is_own(name):
            return
        if self._cluster.route(name) is None:
            self._attributes.pop(name, None)
        if name in self._topics or self._cluster.route(name) is None:
            self._take(name)

    def _take(self, name: str) -> None:
        """Create, change or remove a topic in memory by its current route and attributes; notify the followers."""
        before = self._topics.get(name)
        route = self._cluster.route(name)
        if route is None:
            if before is not None:
                del self._topics[name]
                self._sorted = None
                self._notify(name)
            return
        count = len(self._cluster.queues(name))
        perm = (PERM_READ if self._cluster.readable(name) else 0) | (PERM_WRITE if self._cluster.writable(name) else 0)
        attributes = self._attributes.get(name, {})
        topic = Topic(
            name, count, count, perm, type_of(attributes), self.durability,
            sys_flag=max((each.sys_flag for each in route.queues), default=0), attributes=attributes,
        )  # fmt: skip
        if topic != before:
            self._topics[name] = topic
            if before is None:
                self._sorted = None
            self._notify(name)

    def _notify(self, name: str) -> None:
        for changed in self._followers:
            changed(name)

    def _names(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self._topics)
        return self._sorted

    def topic(self, name: str) -> Topic | None:
        """Metadata.topic."""
        found = self._topics.get(name)
        if found is not None:
            self._cluster.route(name)
        return found

    def topics(self) -> list[Topic]:
        """Metadata.topics: those that are known so far."""
        return [self._topics[name] for name in self._names()]

    def topic_names(self) -> list[str]:
        """Metadata.topic_names: those that are known so far."""
        return list(self._names())

    def lite_topics(self) -> list[Topic]:
        """Metadata.lite_topics: none is served."""
        return []

    def topics_after(self, name: str, limit: int) -> list[Topic]:
        """Metadata.topics_after."""
        names = self._names()
        at = bisect_right(names, name)
        return [self._topics[each] for each in names[at : at + limit]]

    def topic_count(self) -> int:
        """Metadata.topic_count."""
        return len(self._topics)

    def put_topic(self, topic: Topic, done: Done) -> None:
        """Metadata.put_topic: at all brokers that answer. NOT_SUPPORTED: the cluster has no place for what is wanted."""
        if self._is_own(topic.name):
            done(None)
            return
        failure = refused(topic)
        if failure is not None:
            done(failure)
            return
        known = self._cluster.route(topic.name)
        brokers = answering(self._servers, self._cluster)
        if known is not None:
            brokers = [broker for broker in brokers if broker in {each.broker for each in known.queues}] or brokers
        if not brokers:
            done(
                Failure(ErrorCode.STORE_UNAVAILABLE, f"topic {topic.name} cannot be created: no broker of the cluster answers")
            )
            return
        read, write = (max(1, -(-count // len(brokers))) if count else 0 for count in (topic.read_queues, topic.write_queues))
        attributes = self._attributes.get(topic.name, {})
        requests = [(broker, topic_request(topic, broker, read, write, attributes)) for broker in brokers]

        def made(result: None | Failure) -> None:
            if result is not None:
                done(result)
                return
            self._attributes.pop(topic.name, None)
            self._topics.pop(topic.name, None)
            self._sorted = None
            self._find(topic.name, MADE_TRIES, done)

        self._servers.ask_all(requests, made)

    def _find(self, name: str, tries: int, done: Done) -> None:
        """Wait until the name servers report the route of a topic that was created."""
        self._cluster.learn(name)

        def looked(failure: Failure | None) -> None:
            if failure is None or failure.code is not ErrorCode.TOPIC_NOT_FOUND or tries <= 1:
                done(failure)
                return
            again = self._clock.monotonic_ns() + MADE_NS
            self._clock.call_at(again, lambda: self._find(name, tries - 1, done))

        self.ensure_topic(name, looked)

    def delete_topic(self, name: str, done: Done) -> None:
        """Metadata.delete_topic: at its brokers, then at all name servers."""
        route = self._cluster.route(name)
        if route is None:
            done(Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} has no route at the name servers"))
            return
        requests = [(each.broker, Request(codes.DELETE_TOPIC, {"topic": name, "bname": each.broker})) for each in route.queues]

        def deleted(failure: None | Failure) -> None:
            if failure is not None:
                done(failure)
                return
            request = Request(codes.DELETE_TOPIC_ROUTE, {"topic": name})
            self._servers.tell_nameservers(request, lambda: self._forgotten(name, done))

        self._servers.ask_all(requests, deleted)

    def _forgotten(self, name: str, done: Done) -> None:
        self._cluster.learn(name)
        done(None)

    def follow_topics(self, changed: Callable[[str], None]) -> None:
        """Metadata.follow_topics."""
        self._followers.append(changed)

    # Groups

    def group(self, name: str) -> Group | None:
        """Metadata.group."""
        return self.known_groups.group(name)

    def learn_groups(self, names: Iterable[str], done: Done) -> None:
        """Metadata.learn_groups: at brokers that create groups on first use they exist then."""
        FanIn(self.known_groups.ensure, lambda _, failure: done(failure)).start((name,) for name in names)

    def groups(self) -> list[Group]:
        """Metadata.groups: those that were used here."""
        return self.known_groups.all()

    def groups_after(self, name: str, limit: int) -> list[Group]:
        """Metadata.groups_after."""
        return self.known_groups.after(name, limit)

    def put_group(self, group: Group, done: Done) -> None:
        """Metadata.put_group: at all brokers that answer."""
        self.known_groups.put(group, done)

    def default_durability(self) -> Durability:
        """Metadata.default_durability."""
        return self.durability
