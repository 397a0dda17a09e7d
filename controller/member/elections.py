"""Elections of store groups that no broker asks for: the leader of one is dead, or there is none and one could be."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

from controller.groups.heartbeats import Heartbeats
from controller.groups.knowledge import informed
from controller.member.member import ControllerMember
from domain.controller.answer import GroupAnswer
from domain.controller.change import ElectLeader
from domain.controller.group import StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

LOOK_MS: Final = 1_000
"""Time between two looks at all groups."""

log = logging.getLogger("headgate.controller")


@final
class Elections:
    """Looks at the heartbeats now and then, and has the leading member elect where it is due. One election a group at once.

    look_ms   time between two looks
    """

    def __init__(
        self,
        member: ControllerMember,
        heartbeats: Heartbeats,
        clock: Clock,
        look_ms: int = LOOK_MS,
        preferring: Callable[[ElectLeader], ElectLeader] = lambda election: election,
    ) -> None:
        """`preferring` gives an election its preferences among replicas whose logs are equal."""
        self.look_ms = look_ms
        self._preferring = preferring
        self._member = member
        self._heartbeats = heartbeats
        self._clock = clock
        self._under_way: set[str] = set()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to look."""
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def hurry(self) -> None:
        """Look in this turn: a replica has just been lost."""
        self._clock.call_soon(self._elect)

    def _look(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + self.look_ms * MILLISECOND_NS, self._look)
        self._elect()

    def _elect(self) -> None:
        if not self._member.leads:
            return
        now_ms = self._clock.monotonic_ns() // MILLISECOND_NS
        for group in self._heartbeats.due(self._member.groups, now_ms):
            if group.name not in self._under_way:
                self._under_way.add(group.name)
                asked = ElectLeader(group.name, leader_epoch=group.leader_epoch)
                election = informed(asked, group, self._heartbeats, now_ms)
                assert isinstance(election, ElectLeader)
                self._member.change(self._preferring(election), partial(self._elected, group))

    def _elected(self, before: StoreGroup, answer: GroupAnswer | None) -> None:
        self._under_way.discard(before.name)
        group = None if answer is None else answer.group
        if group is not None and group.leader_epoch != before.leader_epoch:
            log.warning(
                "store group %s: replica %s leads in epoch %s, after %s in epoch %s", group.name, group.leader or "none",
                group.leader_epoch, before.leader or "none", before.leader_epoch,
            )  # fmt: skip
