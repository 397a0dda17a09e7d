"""The SyncStateSet as the leader knows it, and the one pending alteration of it.

settled --ask--> asked --made or refused--> settled
                   \\--outcome unknown--> asked again; the members count until the controllers report the outcome
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet
from domain.controller.group import SetMember, StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from store.replication.held import Quorum
from store.replication.ports import SetKeeper

AGAIN_MS: Final = 200
"""Pause before an alteration of unknown outcome is requested again."""
_STALE: Final = (GroupRefusal.OLD_SET_EPOCH, GroupRefusal.SAME_SET)
_DEPOSED: Final = (GroupRefusal.NOT_THE_LEADER, GroupRefusal.OLD_LEADER_EPOCH, GroupRefusal.UNKNOWN_GROUP)


@final
class SyncStateSet:
    """The members; only an answer of the controllers adds or removes them.

    asked     the set of the pending alteration; None: none is pending
    unsure    True: an answer was lost, and the alteration may still be made
    """

    def __init__(
        self, group: StoreGroup, own_id: int, keeper: SetKeeper, clock: Clock, changed: Callable[[], None],
        step_down: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`changed()` is called after each change of the counted members."""
        self.group = group
        self.asked: Quorum | None = None
        self.unsure = False
        self._own = own_id
        self._epoch = group.leader_epoch
        self._keeper = keeper
        self._clock = clock
        self._changed = changed
        self._step_down = step_down
        self._timer: Timer | None = None
        self._ended = False

    @property
    def members(self) -> tuple[SetMember, ...]:
        """Members of the last known committed set."""
        return self.group.members

    @property
    def committed(self) -> Quorum:
        """The last known committed set."""
        return Quorum(self.group.members, self.group.acks)

    def counted(self) -> list[Quorum]:
        """Sets that must each hold all confirmed bytes: the committed one, and that of the pending alteration."""
        return [self.committed] if self.asked is None else [self.committed, self.asked]

    def ask(self, wanted: Quorum) -> None:
        """Request another set; ignored while an alteration is pending."""
        if self.asked is None and not self._ended:
            self.asked = wanted
            self._changed()
            self._alter()

    def _alter(self) -> None:
        self._timer = None
        if self.asked is not None and not self._ended:
            group = self.group
            asked = self.asked
            change = AlterSet(group.name, self._own, self._epoch, group.set_epoch, asked.members, acks=asked.acks)
            self._keeper.alter(change, lambda answer: self._answered(asked, group.set_epoch, answer))

    def _answered(self, asked: Quorum, set_epoch: int, answer: GroupAnswer | None) -> None:
        if self._ended or asked != self.asked or set_epoch != self.group.set_epoch:
            return
        if answer is None or answer.refusal in (GroupRefusal.NOT_LEADING, GroupRefusal.INVALID):
            self.unsure = self.unsure or answer is None
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, self._alter)
        elif answer.refusal in _DEPOSED:
            self._step_down(f"the controllers say: {answer.refusal.value}")
        elif answer.refusal is not None and answer.refusal not in _STALE and self.unsure:
            # An earlier request may still be made without a report: only another leader epoch excludes that.
            self._step_down(f"a change of the SyncStateSet is not known to be made, and now: {answer.refusal.value}")
        else:
            self._settle(answer.group or self.group)

    def heard(self, group: StoreGroup) -> None:
        """Take the state of the group from a controller. An older state is ignored; the states of one `set_epoch` differ in
        `min_in_sync` and in the replicas, and their `order` says which is newer."""
        if self._ended or group.leader_epoch < self._epoch:
            return
        if group.leader_epoch > self._epoch or group.leader != self._own:
            self._step_down(f"replica {group.leader or 'none'} leads in epoch {group.leader_epoch}")
        elif group.set_epoch < self.group.set_epoch:
            return
        elif group.set_epoch > self.group.set_epoch:
            self._settle(group)
        elif not self._is_older(group):
            self.group = group
            self._changed()

    def _is_older(self, group: StoreGroup) -> bool:
        """True when a controller sent `group` before the known state. Controllers of the version before send no `order`."""
        return 0 < group.order < self.group.order

    def _settle(self, group: StoreGroup) -> None:
        if group.leader_epoch != self._epoch:
            self._step_down(f"replica {group.leader or 'none'} leads in epoch {group.leader_epoch}")
            return
        self.asked = None
        self.unsure = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_older(group):
            self.group = group
        self._changed()

    def end(self) -> None:
        """Send no more requests."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
