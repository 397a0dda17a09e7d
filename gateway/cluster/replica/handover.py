"""Handover of a leadership: the leader asks the controllers to elect another replica."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.controller.answer import GroupAnswer
from domain.controller.change import ElectLeader
from domain.hovering import HoveringState
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from domain.repeated_lines import RepeatedLines
from domain.replication.ports import LeaderLog
from gateway.cluster.replica.controllers import GroupControllers
from store.replication.leading import Leading

log: Final = logging.getLogger("headgate.replica")
POLL_MS: Final = 500
"""Time between two checks of a leader's disk space."""
FULL_MS: Final = 2_000
"""Time without room after which another replica should lead: a full disk often recovers by itself."""
AGAIN_MS: Final = (5_000, 60_000)
"""Pause before the next request for an election: the first one, and the limit; it doubles each time."""
LOST_MS: Final = 500
"""Pause after a request whose outcome is unknown. A request is for one epoch: made already, another one changes nothing."""


@final
class Handover:
    """Requests the election of another replica: its node stops, has no room, or cannot confirm.

    A request of unknown outcome is made again after LOST_MS, another one after a pause that grows (AGAIN_MS).

    asked   elections requested while the node goes on
    """

    def __init__(self, leading: Leading, led: LeaderLog, controllers: GroupControllers, clock: Clock) -> None:
        self.asked = 0
        self._leading = leading
        self._led = led
        self._group = leading.group.name
        self._controllers = controllers
        self._clock = clock
        self._full_since_ns = 0
        self._next_ns = 0
        self._pause_ms = AGAIN_MS[0]
        self._alone = HoveringState(clock, self._tell)
        self._timer: Timer | None = None
        self._lines = RepeatedLines(log, clock)

    def watch(self) -> None:
        """Check the disk space of this leader every POLL_MS until `stop`."""
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + POLL_MS * MILLISECOND_NS, self.watch)
        now, full = self._clock.monotonic_ns(), self._led.full
        if full is None:
            self._full_since_ns = 0
            self._alone.change(False)
            return
        self._full_since_ns = self._full_since_ns or now
        if now - self._full_since_ns < FULL_MS * MILLISECOND_NS or now < self._next_ns:
            return
        successor = self._successor(True)
        if successor:
            self.ask(successor, f"has no room ({full.text})")
        else:
            self._alone.change(True)

    def _tell(self, is_alone: bool, times: int) -> None:
        full = self._led.full
        if is_alone and full is not None:
            log.error(
                "store group %s: this leader has no room (%s), and no member of the SyncStateSet has said that it has some: "
                "sends are refused until there is room on one of them", self._group, full.text,
            )  # fmt: skip

    def stop(self) -> None:
        """End `watch`."""
        self._alone.stop()
        if self._timer is not None:
            self._timer.cancel()

    def ask(self, successor: int, why: str) -> None:
        """Request the election of a replica, since this leader `why`. A request soon after another one is dropped."""
        now, pause_ms = self._clock.monotonic_ns(), self._pause_ms
        if now < self._next_ns:
            return
        self._next_ns = now + pause_ms * MILLISECOND_NS
        self._pause_ms = min(2 * pause_ms, AGAIN_MS[1])
        self.asked += 1
        self._lines.event(logging.WARNING, f"store group {self._group}: this leader {why}: replica {successor} should lead")

        def answered(answer: GroupAnswer | None) -> None:
            why_not = "nobody knows whether it was made"
            if answer is None:
                self._pause_ms, self._next_ns = pause_ms, self._clock.monotonic_ns() + LOST_MS * MILLISECOND_NS
            elif answer.refusal is None:
                self._lines.forget()
                return
            else:
                why_not = answer.refusal.value
            self._lines.event(logging.WARNING, f"store group {self._group}: the election is asked for again later: {why_not}")

        self._elect(successor, answered)

    def hand_over(self, done: Callable[[], None]) -> None:
        """Request an election, since this node stops. `done`: the request is answered, or there is no candidate."""
        successor = self._successor(True) or self._successor(False)
        if not successor:
            done()
            return
        log.warning("store group %s: this node stops: replica %s should lead", self._group, successor)
        self._elect(successor, lambda _answer: done())

    def _successor(self, with_room: bool) -> int:
        """The id of the connected member of the SyncStateSet that has most of the log; 0: there is none."""
        leading = self._leading
        heirs = [
            (each.written, number)
            for number, each in leading.followers.items()
            if each.connection is not None and (each.has_room or not with_room) and each.member in leading.group.members
        ]
        return max(heirs)[1] if heirs else 0

    def _elect(self, successor: int, done: Callable[[GroupAnswer | None], None]) -> None:
        change = ElectLeader(self._group, designated=successor, leader_epoch=self._leading.group.leader_epoch)
        self._controllers.change(change, done)
