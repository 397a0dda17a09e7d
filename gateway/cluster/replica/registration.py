"""How a replica becomes known to the controllers: it gets an id once, and registers its log at each start.

has an id, which it takes again | asks how the group is, and takes the next id --> registers
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, final

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ApplyId, RegisterReplica
from domain.controller.group import FIRST_ID, StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.identity import ReplicaIdentity

AGAIN_MS: Final = 300
log: Final = logging.getLogger("headgate.replica")


class ReplicaPlace(NamedTuple):
    """What a replica is called.

    cluster   its cluster
    group     its store group
    identity  text by which the node proves that an id is its own, and that id
    address   host:port at which the other replicas reach it
    learner   True: it is never elected
    serves    host:port at which readers are served while it follows; "": nowhere
    """

    cluster: str
    group: str
    identity: ReplicaIdentity
    address: str
    learner: bool
    serves: str = ""


class LogFacts(NamedTuple):
    """What a replica registers of its log.

    incarnation   identity of the log
    continues     incarnation of the log whose flushed records it has; 0: none
    epoch         epoch of the last batch
    position      its end
    """

    incarnation: int
    continues: int
    epoch: int
    position: int


Enrolled = Callable[[int, StoreGroup], None]
"""(own id, the store group as it is behind the registration)."""


def incarnation_text(incarnation: int) -> str:
    """An identity of a log, as controllers know it; "" for 0."""
    return str(incarnation) if incarnation else ""


@final
class ReplicaRegistration:
    """One registration of a replica; it is tried until the controllers answer.

    why   what it waits for, for a person
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
        self._ended = False

    def start(self) -> None:
        """Begin to ask."""
        if self._ended:
            return
        if self._place.identity.id:
            self._apply(self._place.identity.id)
        else:
            self._controllers.ask(self._found)

    def end(self) -> None:
        """Ask no more."""
        self._ended = True

    def _again(self, why: str) -> None:
        if self._ended:
            return
        if why != self.why:
            log.warning("store group %s: this replica is not registered yet: %s", self._place.group, why)
            self.why = why
        self._clock.call_at(self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, self.start)

    def _found(self, group: StoreGroup | None, known: bool) -> None:
        if self._ended:
            return
        if not known:
            self._again("no controller answers")
            return
        own = next((each.id for each in group.replicas if each.node == self._place.identity.node), 0) if group else 0
        self._apply(own or (group.next_id if group else FIRST_ID))  # an earlier answer may have been lost: the id is its own

    def _apply(self, wanted: int) -> None:
        place = self._place
        change = ApplyId(place.group, place.cluster, wanted, place.identity.node, place.address)
        self._controllers.change(change, lambda answer: self._applied(wanted, answer))

    def _applied(self, own: int, answer: GroupAnswer | None) -> None:
        if self._ended:
            return
        identity = self._place.identity
        if answer is None:
            self._again("no controller answers")
        elif answer.refusal is not None:
            # One that was removed comes back as another replica.
            if answer.refusal is not GroupRefusal.ID_TAKEN or not identity.id or self._kept(0):
                self._again(answer.refusal.value)
        elif identity.id == own or self._kept(own):
            self._register(own)

    def _kept(self, own: int) -> bool:
        """Keep an id, 0: none. False when the disk fails: it is tried again."""
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
            place.group, place.cluster, own, place.address, incarnation_text(facts.incarnation), place.learner, facts.epoch,
            facts.position, incarnation_text(facts.continues), identity.run, identity.runs_before,
        )  # fmt: skip
        self._controllers.change(change, lambda answer: self._registered(own, answer))

    def _registered(self, own: int, answer: GroupAnswer | None) -> None:
        if self._ended:
            return
        if answer is None or answer.refusal is not None or answer.group is None:
            self._again("no controller answers" if answer is None else str(answer.refusal and answer.refusal.value))
        else:
            self.why = ""
            try:
                self._place.identity.note_registered()
            except OSError as error:  # the notes of before are still true
                log.warning("store group %s: the data directory cannot be written: %s", self._place.group, error)
            self._done(own, answer.group)
