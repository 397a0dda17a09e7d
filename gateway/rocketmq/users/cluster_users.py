"""Users and policies of a cluster, asked of one of its brokers every two seconds, and kept for a bounded time without it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.access.records import SPACE
from gateway.rocketmq.broker_request import BrokerRequest
from gateway.rocketmq.brokers import Brokers
from gateway.rocketmq.cluster_map import ClusterMap
from gateway.rocketmq.link import BrokerAnswerError
from gateway.rocketmq.users.rights import rights_of
from protocols.remoting import codes
from protocols.remoting.frame import Frame

PERIOD_NS: Final = 2 * SECOND_NS
"""Time between an answer and the next question."""
BYTES_PER_S: Final = 1024 * 1024
"""Long answers are asked for less often: the time between is longer by a second for each so many bytes."""
ASKED_MAX: Final = 8
"""Brokers that are asked in turn while none tells."""
USERS: Final = "users"
POLICIES: Final = "policies"
QUESTIONS: Final = {
    USERS: (codes.LIST_USER, {"filter": ""}),
    POLICIES: (codes.LIST_ACL, {"subjectFilter": "", "resourceFilter": ""}),
}
"""What is asked, in this order: one broker answers both."""

log = logging.getLogger("headgate.access")
Changed = Callable[[bytes, bytes | None], None]


@final
class ClusterUsers:
    """`gateway.access.records.Followed`: tells users and policies as the values of the space `access`.

    One broker is asked, as by Apache's proxy: the one that told them last, others in the order of their names when it does not
    answer. When none has told them for `kept_ns`, nobody is a user any more until one does.

    told        True: a broker has told them, and not too long ago
    fault       why no broker tells them now; "": one does, or none was asked yet
    _links      connections for these questions alone: an answer that is too long ends no other request
    _bodies     both answers as they came last
    _told_ns    when that was, monotonic
    """

    def __init__(self, servers: Brokers, links: Brokers, cluster: ClusterMap, clock: Clock, kept_ns: int) -> None:
        """`servers` know where the brokers are; `links` has no name servers, and is closed by `stop`."""
        self.told = False
        self.fault = ""
        self._servers = servers
        self._links = links
        self._cluster = cluster
        self._clock = clock
        self._kept_ns = kept_ns
        self._changed: Changed | None = None
        self._values: dict[bytes, bytes] = {}
        self._broker = ""
        self._bodies = (b"", b"")
        self._told_ns = 0
        self._stopped = False

    def follow(self, space: str, changed: Changed) -> None:
        """Followed.follow, for one follower."""
        assert space == SPACE
        self._changed = changed
        for key, value in self._values.items():
            changed(key, value)

    def start(self) -> None:
        """Ask now, and go on until `stop`."""
        self._look()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        self._links.close()

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        age_ns = self._clock.monotonic_ns() - self._told_ns
        users = sum(key.startswith(b"u") for key in self._values)
        return {"cluster_users": users, "cluster_users_age_seconds": age_ns / SECOND_NS if self._told_ns else -1.0}

    def _look(self) -> None:
        if not self._stopped:
            names = sorted(self._cluster.brokers, key=self._rank)
            self._ask(names[:ASKED_MAX], {}, [])

    def _rank(self, broker: str) -> tuple[bool, bool, str]:
        return broker != self._broker, self._servers.waits(broker) != "", broker

    def _later(self, more_ns: int = 0) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + PERIOD_NS + more_ns, self._look)

    def _ask(self, names: list[str], told: dict[str, bytes], faults: list[str]) -> None:
        """Ask the first of `names` what it has not told yet; `faults` of the brokers that were asked before."""
        if self._stopped:
            return
        if not names:
            self._failed("; ".join(faults) or "no broker of the cluster is known")
            return
        broker = names[0]
        what = POLICIES if told else USERS
        code, fields = QUESTIONS[what]

        def answered(answer: Frame | Failure) -> None:
            if isinstance(answer, Frame) and answer.code == codes.SUCCESS:
                told[what] = answer.body
                fault = "" if what == USERS else self._taken(broker, told)
            elif isinstance(answer, Frame):
                fault = f"broker {broker} does not tell its {what}: {answer.remark or f'code {answer.code}'}"
            else:
                fault = f"broker {broker} does not tell its {what}: {answer.text}"
            if fault:
                self._ask(names[1:], {}, [*faults, fault])
            elif what == USERS:
                self._ask(names, told, faults)

        self._links.locate(broker, self._servers.address(broker))
        self._links.ask(broker, BrokerRequest(code, {**fields, "bname": broker}), answered)

    def _taken(self, broker: str, told: dict[str, bytes]) -> str:
        """A broker has told all. Returns what is wrong with that, "" for nothing."""
        bodies = (told[USERS], told[POLICIES])
        if bodies != self._bodies or not self.told:
            try:
                rights = rights_of(*bodies)
            except BrokerAnswerError as error:
                return f"broker {broker}: {error}"
            for fault in rights.faults:
                log.warning("broker %s tells what is not used here: %s", broker, fault)
            self._bodies = bodies
            self._set(rights.values)
        if self.fault:
            log.info("broker %s tells users and policies", broker)
        self._broker, self.fault, self.told = broker, "", True
        self._told_ns = self._clock.monotonic_ns()
        self._later(sum(map(len, bodies)) * SECOND_NS // BYTES_PER_S)
        return ""

    def _failed(self, fault: str) -> None:
        if fault != self.fault:
            self.fault = fault
            log.warning("users and policies of the cluster are not told: %s", fault)
        age_ns = self._clock.monotonic_ns() - self._told_ns
        if self.told and age_ns > self._kept_ns:
            self.told = False
            log.error("users and policies of the cluster were not told for %d s: nobody is admitted", age_ns // SECOND_NS)
            self._set({})
        self._later()

    def _set(self, values: dict[bytes, bytes]) -> None:
        before, self._values = self._values, values
        if self._changed is None:
            return
        for key in before:
            if key not in values:
                self._changed(key, None)
        for key, value in values.items():
            if before.get(key) != value:
                self._changed(key, value)
