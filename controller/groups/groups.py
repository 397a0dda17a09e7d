"""The state machine that the controllers replicate: the store groups of all clusters, and the list of controllers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, final

from controller.groups import election, membership, recovery, registration
from controller.groups.decision import Decision
from controller.groups.limits import is_within
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    FoundGroup,
    GroupChange,
    PromoteLearner,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
    SetMinInSync,
)
from domain.controller.controller_list import ControllerList, SetControllers
from domain.controller.group import FIRST_ID, GROUPS_MAX, StoreGroup

_REFUSED_UNKNOWN: Final = {
    ApplyId: GroupRefusal.ID_TAKEN,
    RegisterReplica: GroupRefusal.NOT_REGISTERED,
    ElectLeader: GroupRefusal.NOT_REGISTERED,
}
"""Refusals of changes of a group that is not there, where they are not UNKNOWN_GROUP."""


@final
class StoreGroups:
    """The store groups by name, and the rules by which they change.

    The same changes in the same order give the same state and the same answers on every controller.

    floor   highest epoch of any group that was removed: a group that comes back under its name begins there, so that no
            replica of the one before takes an election for an old one
    book    the controllers, when their number was changed while they ran
    """

    def __init__(self, groups: Iterator[StoreGroup] | None = None, floor: int = 0, book: ControllerList | None = None) -> None:
        self.book = book or ControllerList()
        self._groups = {each.name: each for each in groups or ()}
        self.floor = floor

    def __iter__(self) -> Iterator[StoreGroup]:
        """All groups, in the order in which they came."""
        return iter(self._groups.values())

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._groups)

    def group(self, name: str) -> StoreGroup | None:
        """The group of this name, None when there is none."""
        return self._groups.get(name)

    def next_id(self, name: str) -> int:
        """The id that a new replica of a group applies for."""
        group = self._groups.get(name)
        return group.next_id if group is not None else FIRST_ID

    def set_controllers(self, change: SetControllers) -> GroupAnswer:
        """Take the next book; another one is refused with OLD_BOOK."""
        if change.book.number != self.book.number + 1:
            return GroupAnswer(GroupRefusal.OLD_BOOK, None)
        self.book = change.book
        return GroupAnswer(None, None)

    def apply(self, change: GroupChange) -> GroupAnswer:
        """Make a change, or refuse it; the answer has the group as it is afterwards."""
        group = self._groups.get(change.group)
        if not is_within(change):
            return GroupAnswer(GroupRefusal.INVALID, group)
        if group is None:
            if not isinstance(change, ApplyId) or change.id != FIRST_ID:
                return GroupAnswer(_REFUSED_UNKNOWN.get(type(change), GroupRefusal.UNKNOWN_GROUP), None)
            if len(self._groups) >= GROUPS_MAX:
                return GroupAnswer(GroupRefusal.TOO_MANY, None)
            group = StoreGroup(change.cluster, change.group, leader_epoch=self.floor, set_epoch=self.floor)
        ruling = _rule(group, change)
        if ruling.group is None:
            del self._groups[change.group]
            self.floor = max(self.floor, group.leader_epoch, group.set_epoch)
        else:
            self._groups[change.group] = ruling.group
        return GroupAnswer(ruling.refusal, ruling.group)


def _rule(group: StoreGroup, change: GroupChange) -> Decision:
    if isinstance(change, AlterSet):
        return membership.alter(group, change)
    if isinstance(change, ElectLeader):
        return election.elect(group, change)
    if isinstance(change, RegisterReplica):
        return registration.register(group, change)
    if isinstance(change, ApplyId):
        return registration.apply_id(group, change)
    if isinstance(change, RecoverGroup | PromoteLearner):
        return recovery.recover(group, change)
    if isinstance(change, FoundGroup):
        return recovery.found(group, change)
    if isinstance(change, CleanReplicas):
        return registration.clean(group, change)
    if isinstance(change, SetAcks):
        changed = replace(group, wanted_acks=change.wanted, set_epoch=group.set_epoch + 1)
    else:
        assert isinstance(change, SetMinInSync)
        changed = replace(group, least=change.least)
    return Decision(changed) if changed.acks_are_possible else Decision(group, GroupRefusal.BAD_ACKS)
