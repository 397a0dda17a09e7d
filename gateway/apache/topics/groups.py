"""Groups of a cluster: queries at all brokers, and changes. Brokers that do not have a group get it from the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.ports import Clock
from domain.topic.topic import Group
from gateway.apache.topics.configuration import group_from, group_request
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap, Known
from gateway.brokers.refusal import BrokerAnswerError, refusal
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

GROUPS_MAX: Final = 100_000
"""Groups in memory, above which those that no broker has are dropped."""
GROUP_NS: Final = 30 * SECOND_NS
"""Time after which a group in use is queried again."""
UNKNOWN_NS: Final = SECOND_NS

Done = Callable[[None | Failure], None]
Found = Callable[[Group | None | Failure], None]
NO_GROUP: Final = "No group in this broker"
"""Remark of brokers of 5.0 to 5.3.2, whose code says no more than that something has failed."""


def answering(servers: Brokers, cluster: ClusterMap) -> list[str]:
    """Brokers of the cluster that answer."""
    return [broker for broker in cluster.brokers if not servers.waits(broker)]


def lacks_group(answer: Frame) -> bool:
    """True when a broker that was asked for a group (GET_SUBSCRIPTIONGROUP_CONFIG) says that it does not have it."""
    return answer.code == codes.GROUP_NOT_EXIST or (answer.code == codes.SYSTEM_ERROR and answer.remark.startswith(NO_GROUP))


@final
class GroupQuestion:
    """One query. The result is the group as configured at the first broker that has it; None: no broker has it.

    At brokers that create groups on first use, the query is a use. A position or a lease needs the group at each broker.
    """

    def __init__(self, servers: Brokers, name: str, brokers: Sequence[str], done: Found) -> None:
        self._servers = servers
        self._name = name
        self._brokers = brokers
        self._done = done

    def ask(self) -> None:
        """Ask the brokers."""
        if not self._brokers:
            self._done(Failure(ErrorCode.STORE_UNAVAILABLE, "no broker of the cluster answers"))
            return
        FanIn(self._ask, self._asked).start((broker,) for broker in self._brokers)

    def _ask(self, broker: str, answered: Callable[[Group | None | Failure], None]) -> None:
        request = Request(codes.GET_GROUP, {"group": self._name, "bname": broker})
        self._servers.ask(broker, request, lambda answer: answered(self._group(broker, answer)))

    def _group(self, broker: str, answer: Frame | Failure) -> Group | None | Failure:
        """Read the group from the answer of `broker`. Returns None when the broker does not have the group."""
        if isinstance(answer, Failure):
            return answer
        if lacks_group(answer):
            return None
        if answer.code in (codes.NOT_SUPPORTED, codes.NO_PERMISSION):
            # A broker before 5.0, or one that does not report it: it creates groups on first use.
            return Group(self._name)
        if answer.code != codes.SUCCESS:
            return refusal(broker, answer)
        try:
            return group_from(self._name, answer.body)
        except BrokerAnswerError as error:
            return Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} told group {self._name} with {error}")

    def _asked(self, answers: dict[tuple[str], Group | None], failure: Failure | None) -> None:
        found = {broker: group for (broker,), group in answers.items() if group is not None}
        if not found:
            # Another broker that did not answer may know it.
            self._done(failure)
            return
        group = found[min(found)]
        request = group_request(group)
        without = [(broker, request) for (broker,), known in answers.items() if known is None]
        self._servers.ask_all(without, lambda failure: self._done(failure or group))


@final
class KnownGroup:
    """A group as reported by a broker; None: no broker has it. `asked_ns`: time of the query, monotonic."""

    __slots__ = ("asked_ns", "group")

    def __init__(self, group: Group | None, asked_ns: int) -> None:
        self.group = group
        self.asked_ns = asked_ns


@final
class ClusterGroups:
    """Groups of a cluster that were used here. An unknown group has to be queried first: `ensure`.

    _groups   name -> what brokers have reported
    _names    those of groups that a broker has, sorted
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock) -> None:
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._groups: dict[str, KnownGroup] = {}
        self._names: list[str] = []
        self._asking: dict[str, list[Known]] = {}

    def ensure(self, name: str, done: Known) -> None:
        """Query a group unless it is known. `done` gets None when its existence is known, else the failure."""
        now = self._clock.monotonic_ns()
        known = self._groups.get(name)
        if known is not None and now - known.asked_ns < (GROUP_NS if known.group is not None else UNKNOWN_NS):
            done(None)
            return
        waiting = self._asking.get(name)
        if known is not None and known.group is not None:
            done(None)
            if waiting is not None:
                return
            self._asking[name] = []
        elif waiting is not None:
            waiting.append(done)
            return
        else:
            self._asking[name] = [done]
        GroupQuestion(
            self._servers, name, answering(self._servers, self._cluster), lambda result: self._grouped(name, result)
        ).ask()

    def _grouped(self, name: str, result: Group | None | Failure) -> None:
        if isinstance(result, Failure):
            self._asked(name, result)
        else:
            if result is None and len(self._groups) >= GROUPS_MAX:
                self._groups = {each: known for each, known in self._groups.items() if known.group is not None}
            self._know(name, result)
            self._asked(name, None)

    def _know(self, name: str, group: Group | None) -> None:
        before, self._groups[name] = self.group(name), KnownGroup(group, self._clock.monotonic_ns())
        if before is None and group is not None:
            insort(self._names, name)
        elif before is not None and group is None:
            del self._names[bisect_left(self._names, name)]

    def _asked(self, name: str, failure: Failure | None) -> None:
        for done in self._asking.pop(name, ()):
            done(failure)

    def group(self, name: str) -> Group | None:
        """The group of this name as last reported; None: no broker has it, or it was not queried."""
        known = self._groups.get(name)
        return None if known is None else known.group

    def all(self) -> list[Group]:
        """All known groups, by name."""
        return self.after("", len(self._names))

    def after(self, name: str, limit: int) -> list[Group]:
        """At most `limit` known groups by name, from the one behind `name` on; "": from the first on."""
        at = bisect_right(self._names, name)
        found = [self.group(each) for each in self._names[at : at + limit]]
        return [each for each in found if each is not None]

    def put(self, group: Group, done: Done) -> None:
        """Create or change a group at all brokers that answer."""
        brokers = answering(self._servers, self._cluster)
        if not brokers:
            done(
                Failure(ErrorCode.STORE_UNAVAILABLE, f"group {group.name} cannot be created: no broker of the cluster answers")
            )
            return

        def put(failure: None | Failure) -> None:
            if failure is None:
                self._know(group.name, group)
            done(failure)

        request = group_request(group)
        self._servers.ask_all([(broker, request) for broker in brokers], put)
