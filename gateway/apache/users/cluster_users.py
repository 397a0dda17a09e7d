"""Users and policies of a cluster, queried from all of its brokers every two seconds, and kept for a time without answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from typing import Final, final

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.access.records import SPACE
from gateway.apache.users.agreement import Agreement
from gateway.apache.users.rights import ToldRights, rights_of
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.refusal import BrokerAnswerError
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

PERIOD_NS: Final = 2 * SECOND_NS
"""Time between the last answer of a round and the next round."""
BYTES_PER_S: Final = 1024 * 1024
"""Size of all answers that lengthens the time between two rounds by one second."""
BROKERS_PER_PERIOD: Final = 16
"""Number of brokers that lengthens the time between two rounds by PERIOD_NS."""
USERS: Final = "users"
POLICIES: Final = "policies"
QUESTIONS: Final = {
    USERS: (codes.LIST_USER, {"filter": ""}),
    POLICIES: (codes.LIST_ACL, {"subjectFilter": "", "resourceFilter": ""}),
}
"""What is asked, in this order: a broker answers both."""

log = logging.getLogger("headgate.access")
Changed = Callable[[bytes, bytes | None], None]


@final
class ClusterUsers:
    """`gateway.access.records.Followed`: users and policies of the cluster as values of the space `access`.

    All brokers are queried, and entries on which they agree are valid (`Agreement`). The report of a silent broker is valid
    for `kept_ns`; when no broker has reported for that time, there are no users until one does.

    is_known      True: a broker has reported users and policies within `kept_ns`
    fault         reason why no broker reports them now; "": one does, or none was queried yet
    _links        connections for these queries alone: an answer that is too long ends no other request
    _bodies       broker -> its last answers, users and policies
    _faults       broker -> reason why it does not report them
    _notified_ns  time of the last report of a broker, monotonic
    """

    def __init__(self, servers: Brokers, links: Brokers, cluster: ClusterMap, clock: Clock, kept_ns: int) -> None:
        """`servers` know where the brokers are; `links` has no name servers, and is closed by `stop`."""
        self.is_known = False
        self.fault = ""
        self._servers = servers
        self._links = links
        self._cluster = cluster
        self._clock = clock
        self._kept_ns = kept_ns
        self._changed: Changed | None = None
        self._values: dict[bytes, bytes] = {}
        self._agreement = Agreement()
        self._rights: dict[str, ToldRights] = {}
        self._bodies: dict[str, tuple[bytes, bytes]] = {}
        self._faults: dict[str, str] = {}
        self._notified_ns = 0
        self._stopped = False

    def follow(self, space: str, changed: Changed) -> None:
        """Followed.follow, for one follower. The cluster has no other space: no security contexts of OSCORE."""
        if space != SPACE:
            return
        self._changed = changed
        for key, value in self._values.items():
            changed(key, value)

    def start(self) -> None:
        """Ask now, and go on until `stop`."""
        self._poll()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        self._links.close()

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        age_ns = self._clock.monotonic_ns() - self._notified_ns
        return {
            "cluster_users": sum(key.startswith(b"u") for key in self._values),
            "cluster_users_age_seconds": age_ns / SECOND_NS if self._notified_ns else -1.0,
            "cluster_users_differing": self._agreement.differing,
        }

    def _poll(self) -> None:
        """One round: all brokers at the same time."""
        if self._stopped:
            return
        brokers = sorted(self._cluster.brokers)
        if not brokers:
            self._judge(brokers, {"": "no broker of the cluster is known"})
            return

        def ask(broker: str, answered: Callable[[str], None]) -> None:
            self._links.locate(broker, self._servers.address(broker))
            self._ask(broker, {}, answered)

        def asked(faults: dict[tuple[str], str], _: Failure | None) -> None:
            if not self._stopped:
                self._judge(brokers, {broker: fault for (broker,), fault in faults.items() if fault})

        FanIn(ask, asked).start((broker,) for broker in brokers)

    def _ask(self, broker: str, answers: dict[str, bytes], done: Callable[[str], None]) -> None:
        """Send the queries that a broker has not answered yet. `done` gets the reason of a failure, "" when it answered all."""
        what = POLICIES if answers else USERS
        code, fields = QUESTIONS[what]

        def answered(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                done(f"broker {broker} does not tell its {what}: {answer.text}")
            elif answer.code != codes.SUCCESS:
                done(f"broker {broker} does not tell its {what}: {answer.remark or f'code {answer.code}'}")
            elif what == USERS and not self._stopped:
                self._ask(broker, {USERS: answer.body}, done)
            else:
                done(self._taken(broker, (answers.get(USERS, b""), answer.body)))

        self._links.ask(broker, Request(code, {**fields, "bname": broker}), answered)

    def _taken(self, broker: str, bodies: tuple[bytes, bytes]) -> str:
        """Read both answers of a broker. Returns the fault in them, "" for none."""
        rights = self._rights.get(broker)
        if rights is None or bodies != self._bodies.get(broker):
            try:
                rights = rights_of(*bodies)
            except BrokerAnswerError as error:
                return f"broker {broker}: {error}"
            for fault in rights.faults:
                log.warning("broker %s tells what is not used here: %s", broker, fault)
            self._rights[broker], self._bodies[broker] = rights, bodies
        self._notified_ns = self._clock.monotonic_ns()
        self._agreement.notify(broker, rights, self._notified_ns)
        return ""

    def _judge(self, brokers: list[str], faults: dict[str, str]) -> None:
        """End a round: each of `brokers` has reported, or is in `faults`."""
        now_ns = self._clock.monotonic_ns()
        for broker, fault in faults.items():
            if self._faults.get(broker) != fault:
                log.warning("users and policies of the cluster are not told: %s", fault)
        for broker in brokers:
            if broker in self._faults and broker not in faults:
                log.info("broker %s tells users and policies", broker)
        self._faults = faults
        self.fault = "; ".join(faults.values()) if len(faults) >= len(brokers) else ""
        self._agreement.forget(self._known(brokers), now_ns - self._kept_ns)
        if self._agreement.known:
            self.is_known = True
            self._set(self._agreement.holds(self._values, now_ns))
        elif self.is_known:
            self.is_known = False
            age_s = (now_ns - self._notified_ns) // SECOND_NS
            log.error("users and policies of the cluster were not told for %d s: nobody is admitted", age_s)
            self._set({})
        size = sum(len(users) + len(policies) for users, policies in self._bodies.values())
        more_ns = size * SECOND_NS // BYTES_PER_S + len(brokers) // BROKERS_PER_PERIOD * PERIOD_NS
        self._clock.call_at(now_ns + PERIOD_NS + more_ns, self._poll)

    def _known(self, brokers: list[str]) -> Container[str]:
        """The brokers whose reports are valid: `brokers`, or the earlier ones while the name servers report none."""
        if brokers:
            self._rights = {name: each for name, each in self._rights.items() if name in brokers}
            self._bodies = {name: each for name, each in self._bodies.items() if name in brokers}
        return brokers or self._rights

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
