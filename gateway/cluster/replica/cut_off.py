"""A leader that cannot confirm: another replica should lead, or this one gives up, so that its clients look for that one.

a member that counts does not follow --PATIENCE_NS--> the controllers answer: others that are alive, and enough, should lead
                                                  --> nobody answers: the leadership ends

A leader that all members follow goes on without controllers. No safety depends on these times: they only decide when clients
look for somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.controller.group import ReplicaReport
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.cluster.replica.controllers import GroupControllers
from store.replication.leading import Leading

CHECK_NS: Final = 200 * MILLISECOND_NS
PATIENCE_NS: Final = 1_000 * MILLISECOND_NS
"""Time without a confirmation that a leader bears, counted from when a member that counts does not follow any more."""
UNHEARD_NS: Final = 2_000 * MILLISECOND_NS
"""Age of the newest answer of the controllers from which on they count as lost: twice the time between two questions."""
BEGUN_NS: Final = 5_000 * MILLISECOND_NS
"""Least age of a leadership that hands itself over before it has confirmed anything: replicas that cannot reach each other do
not pass it round faster."""
_ALONE: Final = "it hears neither the controllers nor enough members of the SyncStateSet to confirm anything"


@final
class CutOff:
    """Watches one leadership."""

    def __init__(
        self, leading: Leading, controllers: GroupControllers, clock: Clock, elect: Callable[[int, str], None],
        end: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`elect(replica, why)` asks for the election of another replica; `end(why)` ends this leadership."""
        self._leading = leading
        self._controllers = controllers
        self._clock = clock
        self._elect = elect
        self._end = end
        self._begun_ns = clock.monotonic_ns()
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Check every CHECK_NS until `stop`."""
        now = self._clock.monotonic_ns()
        self._timer = self._clock.call_at(now + CHECK_NS, self.watch)
        stalled_ns = self._leading.review.stalled_ns
        if not stalled_ns or now - stalled_ns < PATIENCE_NS:
            return
        asked_ns = self._controllers.newest.asked_ns
        if now - asked_ns >= UNHEARD_NS:
            self._end(_ALONE)
        elif asked_ns >= stalled_ns and self._may_hand_over(now) and (successor := self._successor()):
            self._elect(successor, "does not hear enough members of the SyncStateSet to confirm anything")

    def stop(self) -> None:
        """End `watch`."""
        if self._timer is not None:
            self._timer.cancel()

    def _may_hand_over(self, now_ns: int) -> bool:
        return self._leading.review.has_confirmed or now_ns - self._begun_ns >= BEGUN_NS

    def _successor(self) -> int:
        """The member that should lead instead, by the controllers' word: the fittest with the longest log. 0: there is none, or
        too few others are alive for it to confirm anything."""
        group, own = self._leading.group, self._leading.own_id
        registered = {each.member for each in group.replicas if not each.learner and each.id != own}
        alive = [
            each for each in self._controllers.newest.replicas
            if each.alive and not each.word.refuses and each.report.member in registered
        ]  # fmt: skip
        if not self._leading.review.absent or len(alive) < group.min_in_sync:
            return 0
        members = [each for each in alive if each.report.member in group.members]
        best = min(members, key=lambda each: (each.standing.fitness, _rank(each.report)), default=None)
        return 0 if best is None else best.report.id


def _rank(report: ReplicaReport) -> tuple[int, int, int]:
    return -report.epoch, -report.position, report.id
