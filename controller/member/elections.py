"""Elections of store groups that no broker asks for: the leader of one is dead, or there is none and one could be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, final

from controller.groups.election import is_decidable
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed
from controller.member.member import ControllerMember
from controller.member.proposals import ChangeDone
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ElectLeader
from domain.controller.group import StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

POLL_MS: Final = 1_000
"""Time between two polls of all groups."""
RETURN_MS: Final = 1_000
"""Longest wait of an early election. A replica sends a heartbeat each 250 ms, and connects for it."""
RETURN_LOOK_MS: Final = 100
"""Time between two polls while an election waits."""
ASKED_MS: Final = 1_500
"""Longest wait of a request for the second step of its election; a replica waits 2,000 ms for an answer."""
SETTLE_MS: Final = 20
"""Wait of an election for the end of other connections: those of a controller that loses its network end one by one."""

log = logging.getLogger("headgate.controller")


class _Asked(NamedTuple):
    """A request for an election in two steps.

    until_ms   when it is answered though nobody is elected, monotonic
    """

    designated: int
    done: ChangeDone
    until_ms: int


@final
class Elections:
    """Polls the heartbeats, and starts due elections at the leading member. At most one election per group at a time.

    poll_ms   time between two polls
    _early    group -> begin of the wait of its election for replicas lost just now, monotonic milliseconds
    _asked    group -> the request of an election whose first step is made: the leader is deposed
    """

    def __init__(
        self,
        member: ControllerMember,
        heartbeats: Heartbeats,
        clock: Clock,
        poll_ms: int = POLL_MS,
        preferring: Callable[[ElectLeader], ElectLeader] = lambda election: election,
        is_early: Callable[[ElectLeader, StoreGroup, int], bool] = lambda election, group, now_ms: False,
    ) -> None:
        """The port of the judge of replicas.

        preferring   adds preferences among replicas with equal logs to an election
        is_early     True when a better replica was alive a moment ago; such an election waits RETURN_MS at most
        """
        self.poll_ms = poll_ms
        self._preferring = preferring
        self._is_early = is_early
        self._early: dict[str, int] = {}
        self._soon: Timer | None = None
        self._soon_ns = 0
        self._member = member
        self._heartbeats = heartbeats
        self._clock = clock
        self._under_way: set[str] = set()
        self._asked: dict[str, _Asked] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to poll."""
        self._poll()

    def stop(self) -> None:
        """Stop polling. The outcome of requests that wait for their second step is unknown."""
        for name in list(self._asked):
            self._answer(name, None)
        for timer in (self._timer, self._soon):
            if timer is not None:
                timer.cancel()

    def request(self, change: ElectLeader, done: ChangeDone) -> None:
        """Make an election that a client asks for. `done` as in ControllerMember.change: after its last step."""

        def answered(answer: GroupAnswer | None) -> None:
            group = None if answer is None or answer.refusal is not None else answer.group
            if group is None or group.leader or not group.members:
                done(answer)
                return
            earlier = self._asked.pop(group.name, None)
            if earlier is not None:
                earlier.done(GroupAnswer(GroupRefusal.OLD_LEADER_EPOCH, group))
            until_ms = self._clock.monotonic_ns() // MILLISECOND_NS + ASKED_MS
            self._asked[group.name] = _Asked(change.designated, done, until_ms)
            self._clock.call_at(until_ms * MILLISECOND_NS, self._elect)
            self.hurry()

        self._member.change(self._preferring(change), answered)

    def _answer(self, name: str, answer: GroupAnswer | None) -> None:
        asked = self._asked.pop(name, None)
        if asked is not None:
            asked.done(answer)

    def _expire(self, now_ms: int) -> None:
        """Answer requests for elections that found too few reports, or are not this controller's any more."""
        for name, asked in list(self._asked.items()):
            if not self._member.leads:
                self._answer(name, None)
            elif now_ms >= asked.until_ms:
                self._answer(name, GroupAnswer(GroupRefusal.TOO_FEW_FENCED, self._member.groups.group(name)))

    def hurry(self) -> None:
        """Poll in this turn: a replica was lost or has returned just now."""
        self._clock.call_soon(self._elect)

    def _poll(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + self.poll_ms * MILLISECOND_NS, self._poll)
        self._elect()

    def _elect(self) -> None:
        now_ms = self._clock.monotonic_ns() // MILLISECOND_NS
        self._expire(now_ms)
        if not self._member.leads:
            self._early.clear()
            return
        due = self._heartbeats.due(self._member.groups, now_ms)
        self._early = {each.name: self._early[each.name] for each in due if each.name in self._early}
        if any(self._heartbeats.may_return(each, now_ms) for each in self._member.groups):
            self._poll_soon(RETURN_LOOK_MS)
        for group in due:
            if group.name not in self._under_way:
                wanted = self._asked[group.name].designated if group.name in self._asked and not group.leader else 0
                asked = ElectLeader(group.name, designated=wanted, leader_epoch=group.leader_epoch)
                election = informed(asked, group, self._heartbeats, now_ms)
                assert isinstance(election, ElectLeader)
                if not is_decidable(group, election) or self._waits(election, group, now_ms):
                    continue
                self._under_way.add(group.name)
                self._member.change(self._preferring(election), partial(self._elected, group))

    def _waits(self, election: ElectLeader, group: StoreGroup, now_ms: int) -> bool:
        """True for an early election that has not waited for its whole time. Another poll follows soon."""
        if self._heartbeats.is_just_lost(group.name, group.leader, SETTLE_MS, now_ms):
            self._poll_soon(SETTLE_MS)
            return True
        why = ""
        if self._heartbeats.lost_all(group.name, group.leader, RETURN_MS, now_ms):
            why = "all replicas were lost at once, so that this controller may be the one that was cut off: its leader"
        elif self._is_early(election, group, now_ms):
            why = "of its SyncStateSet nobody is alive that should lead, and somebody was a moment ago, who"
        if not why:
            return False
        if group.name not in self._early:
            self._early[group.name] = now_ms
            log.warning("store group %s: %s is waited for, for %s ms at most", group.name, why, RETURN_MS)
        if now_ms - self._early[group.name] >= RETURN_MS:
            return False
        self._poll_soon(RETURN_LOOK_MS)
        return True

    def _poll_soon(self, wait_ms: int) -> None:
        due_ns = self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS
        if self._soon is not None and self._soon_ns <= due_ns:
            return
        if self._soon is not None:
            self._soon.cancel()
        self._soon, self._soon_ns = self._clock.call_at(due_ns, self._poll_again), due_ns

    def _poll_again(self) -> None:
        self._soon = None
        self._elect()

    def _elected(self, before: StoreGroup, answer: GroupAnswer | None) -> None:
        self._under_way.discard(before.name)
        group = None if answer is None else answer.group
        if answer is not None and (answer.refusal is GroupRefusal.ELECTION_FAILED or (group is not None and group.leader)):
            self._answer(before.name, answer)
            if group is None or not group.leader:
                self.hurry()  # the replica that was named lacks records: another one is elected
        if group is not None and group.leader_epoch != before.leader_epoch:
            log.warning(
                "store group %s: replica %s leads in epoch %s, after %s in epoch %s", group.name, group.leader or "none",
                group.leader_epoch, before.leader or "none", before.leader_epoch,
            )  # fmt: skip
