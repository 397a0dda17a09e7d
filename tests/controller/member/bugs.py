"""Bugs of a driver, which the storm has to find when they are put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controller.groups.groups import StoreGroups
from controller.groups.snapshot import restore, snapshot
from controller.member import member as members
from controller.member.member import ControllerMember
from domain.controller.change import GroupChange
from tests.controller.member.storm import storm
from tests.controller.raft.memory_storage import MemoryStorage
from tests.simulation.kit.bugs import Bugs, Patch

BUGS: Final = Bugs()


@BUGS.found_by(storm, 5)
def early_answer(patch: Patch) -> None:
    """A change is answered when the leader has it."""
    change = ControllerMember.change

    def early(self: ControllerMember, wanted: GroupChange, done: Callable[[Any], None]) -> None:
        if self.leads:
            guess = restore(snapshot(self.groups)).apply(wanted)
            change(self, wanted, lambda answer: None)
            done(guess)
        else:
            change(self, wanted, done)

    patch.setattr(ControllerMember, "change", early)


@BUGS.found_by(storm, 5)
def no_sync(patch: Patch) -> None:
    """The log is not synced: what a kill takes was promised to others."""
    patch.setattr(MemoryStorage, "sync", lambda self: None)


@BUGS.found_by(storm, 20)
def old_snapshot(patch: Patch) -> None:
    """A snapshot has the state that the one before was made of."""
    before = [b""]

    def old(groups: StoreGroups) -> bytes:
        before.append(snapshot(groups))
        return before.pop(0)

    patch.setattr(members, "snapshot", old)
