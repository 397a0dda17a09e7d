"""Bugs of a driver, put back one at a time: the storm has to find each within a stated number of seeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple
from unittest import mock

from controller.groups.groups import StoreGroups
from controller.groups.snapshot import restore, snapshot
from controller.member import member as members
from controller.member.member import ControllerMember
from domain.controller.change import GroupChange
from tests.controller.member.storm import storm
from tests.controller.raft.memory_storage import MemoryStorage


def _answered_before_the_commit() -> AbstractContextManager[object]:
    """A change is answered when the leader has it."""
    change = ControllerMember.change

    def early(self: ControllerMember, wanted: GroupChange, done: Callable[[Any], None]) -> None:
        if self.leads:
            guess = restore(snapshot(self.groups)).apply(wanted)
            change(self, wanted, lambda answer: None)
            done(guess)
        else:
            change(self, wanted, done)

    return mock.patch.object(ControllerMember, "change", early)


def _sync_that_does_nothing() -> AbstractContextManager[object]:
    """The log is not synced: what a kill takes was promised to others."""
    return mock.patch.object(MemoryStorage, "sync", return_value=None)


def _old_snapshot() -> AbstractContextManager[object]:
    """A snapshot has the state that the one before was made of."""
    before = [b""]

    def old(groups: StoreGroups) -> bytes:
        before.append(snapshot(groups))
        return before.pop(0)

    return mock.patch.object(members, "snapshot", old)


class MemberBug(NamedTuple):
    """One bug. `seeds`: how many are enough to find it."""

    put_back: Callable[[], AbstractContextManager[object]]
    seeds: int


BUGS: Final[dict[str, MemberBug]] = {
    "early-answer": MemberBug(_answered_before_the_commit, 5),
    "no-sync": MemberBug(_sync_that_does_nothing, 5),
    "old-snapshot": MemberBug(_old_snapshot, 20),
}


def first_seed(name: str, seeds: int) -> tuple[int, str]:
    """(the first seed that finds a bug, what the check says); -1 when none does."""
    with BUGS[name].put_back():
        for seed in range(seeds):
            try:
                storm(seed)
            except AssertionError as error:
                return seed, str(error)
    return -1, ""
