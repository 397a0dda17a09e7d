"""State of a replica that registers at the controllers: it applies for an id once, and registers its log at each start.

queries the group --> applies for the id that it has, or for the next one --> registers

What the group is called says little: a log of another group of the name, or of another cluster, changes nothing here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ApplyId, RegisterReplica
from domain.controller.group import FIRST_ID, ReplicaReport, StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.repeated_lines import RepeatedLines
from domain.replication.ports import FollowerLog
from domain.set_aside import KeptAside
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.identity import GROUP, ReplicaIdentity
from gateway.cluster.strangers import Strangers

AGAIN_MS: Final = 300
LOST_MS: Final = 15_000
"""Time for which a node with an empty directory applies for the id of the replica that was at its address: until that one is
known to be dead, and the leader has left it out of the SyncStateSet."""
log: Final = logging.getLogger("headgate.replica")


class ReplicaPlace(NamedTuple):
    """Name and addresses of a replica.

    identity  its id, and the text by which the node proves that the id is its own
    address   host:port at which the other replicas reach it
    learner   True: it is never elected
    serves    host:port at which it serves readers while it follows; "": it serves none
    gates     host:port at which it takes gateways when it leads
    strangers counts what is refused, since it is of another store group or history
    aside     what the data directory keeps that was set aside
    remote    name of the place of a remote replica, which is a learner; "": it is none
    """

    cluster: str
    group: str
    identity: ReplicaIdentity
    address: str
    learner: bool
    strangers: Strangers
    aside: Callable[[], KeptAside]
    serves: str = ""
    gates: str = ""
    remote: str = ""

    def refused(self, group: StoreGroup | None, where: str, log: LogFacts) -> str:
        """Reason why this replica does not obey the controller at `where`, which knows `group`; "": it does.

        A log without records of an election is of no group.
        """
        if group is None or log.epoch <= 0 or not self.identity.is_of_other(group.identity):
            return ""
        self.strangers.refused(self.group, where, GroupRefusal.OTHER_GROUP.value)
        return GroupRefusal.OTHER_GROUP.value


class LogFacts(NamedTuple):
    """Properties of a log that a replica registers.

    continues     incarnation of an earlier log whose flushed records it contains; 0: none
    epoch         leader epoch of the last batch
    position      end of the log
    fence         as in ReplicaReport
    """

    incarnation: int
    continues: int
    epoch: int
    position: int
    fence: int = 0

    def report(self, own: int) -> ReplicaReport:
        """The report of replica `own` in its heartbeats."""
        return ReplicaReport(own, incarnation_text(self.incarnation), self.epoch, self.position, fence=self.fence)


def facts_of(follower: FollowerLog) -> LogFacts:
    """The properties of the log of a replica that does not lead."""
    eras = follower.eras()
    return LogFacts(follower.incarnation, follower.continues, eras[-1].epoch if eras else 0, follower.written)


Enrolled = Callable[[int, StoreGroup], None]
"""Callback with (id of the replica, store group after the registration)."""


def incarnation_text(incarnation: int) -> str:
    """The identity of a log in the form used by controllers; "" for 0."""
    return str(incarnation) if incarnation else ""


@final
class RegisteringState:
    """A replica whose log the controllers do not know yet. It tries again every AGAIN_MS until they accept it.

    why   reason why it is not registered yet, text for people; "": it is registered
    """

    def __init__(
        self, place: ReplicaPlace, facts: Callable[[], LogFacts], controllers: GroupControllers, clock: Clock, done: Enrolled
    ) -> None:
        self.why = "no controller answers"
        self._place = place
        self._facts = facts
        self._controllers = controllers
        self._clock = clock
        self._done = done
        self._lines = RepeatedLines(log, clock)
        self._lost_ns = 0
        self._ended = False
        self._learner = place.learner

    def start(self, why: str) -> None:
        """Enter the state, again for a reason: the text `why`."""
        self.why = why
        self._try()

    def _try(self) -> None:
        if self._ended:
            return
        damage = self._place.identity.damage
        if damage:
            if damage != self.why:
                self._place.strangers.refused(self._place.group, GROUP, damage)
            self._again(damage)
        else:
            self._controllers.ask(self._found)

    def leave(self) -> None:
        """Stop without a call of `done`."""
        self._ended = True

    def doing(self, group: str) -> str:
        """The activity of this replica of `group`, text for people."""
        return f"this replica of {group} is not registered at the controllers: {self.why}"

    def _again(self, why: str) -> None:
        if self._ended:
            return
        self.why = why
        self._lines.state(logging.WARNING, f"store group {self._place.group}: this replica is not registered yet: {why}")
        self._clock.call_at(self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, self._try)

    def _found(self, group: StoreGroup | None, known: bool) -> None:
        if self._ended:
            return
        if not known:
            self._again(self._controllers.silence)
            return
        other = self._place.refused(group, self._controllers.where, self._facts())
        if other:
            self._again(other)
            return
        if self._place.identity.id:
            self._apply(self._place.identity.id)
            return
        self._apply(FIRST_ID if group is None else self._wanted(group))

    def _wanted(self, group: StoreGroup) -> int:
        """The id to apply for: its own if an earlier answer was lost; for LOST_MS that of a replica at this address, whose
        directory is lost if the controllers agree; else the next one."""
        place = self._place
        own = next((each.id for each in group.replicas if each.node == place.identity.node), 0)
        lost = next((each.id for each in group.replicas if each.address == place.address), 0)
        if own or not lost:
            return own or group.next_id
        now = self._clock.monotonic_ns()
        self._lost_ns = self._lost_ns or now
        return lost if now - self._lost_ns < LOST_MS * MILLISECOND_NS else group.next_id

    def _apply(self, wanted: int) -> None:
        place = self._place
        change = ApplyId(place.group, place.cluster, wanted, place.identity.node, place.address)
        self._controllers.change(change, lambda answer: self._applied(wanted, answer))

    def _applied(self, own: int, answer: GroupAnswer | None) -> None:
        if self._ended:
            return
        identity = self._place.identity
        if answer is None:
            self._again(self._controllers.silence)
        elif answer.refusal is not None:
            # ID_TAKEN: this replica was removed from the group. It drops its id, and applies for a new one.
            if answer.refusal is not GroupRefusal.ID_TAKEN or not identity.id or self._kept(0):
                self._again(answer.refusal.value)
        elif identity.id == own or self._kept(own):
            self._register(own)

    def _kept(self, own: int) -> bool:
        """Store the id durably, 0: none. False: the write failed, and a retry is scheduled."""
        try:
            self._place.identity.keep(own)
        except OSError as error:
            self._again(f"the data directory cannot be written: {error}")
            return False
        return True

    def _register(self, own: int) -> None:
        place, facts = self._place, self._facts()
        identity = place.identity
        try:
            identity.note_run()
        except OSError as error:
            self._again(f"the data directory cannot be written: {error}")
            return
        change = RegisterReplica(
            place.group, place.cluster, own, place.address, incarnation_text(facts.incarnation), self._learner, facts.epoch,
            facts.position, incarnation_text(facts.continues), identity.run, identity.runs_before,
            identity.group if facts.epoch > 0 else "",
        )  # fmt: skip
        self._controllers.change(change, lambda answer: self._registered(own, answer))

    def _registered(self, own: int, answer: GroupAnswer | None) -> None:
        if self._ended:
            return
        if answer is not None and answer.refusal is GroupRefusal.LAST_MEMBER and self._learner:
            self._learner = False  # it was promoted, and its settings have not been changed since
            self._again(
                "it is set to be a learner, and is the only replica that has all records: it goes on as one that leads. Take "
                "learner and remote out of its table [replication]"
            )
        elif answer is None or answer.refusal is not None or answer.group is None:
            self._again(self._controllers.silence if answer is None else str(answer.refusal and answer.refusal.value))
        else:
            self.why = ""
            try:
                self._place.identity.note_registered()
            except OSError as error:  # the earlier notes remain valid
                log.warning("store group %s: the data directory cannot be written: %s", self._place.group, error)
            self._done(own, answer.group)
