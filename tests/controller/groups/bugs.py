"""Known bugs, put back one at a time: the checks of the model have to find each within a stated number of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final, NamedTuple
from unittest import mock

from controller.groups import election, membership, recovery, registration
from controller.groups.ruling import Ruling
from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet
from domain.controller.group import ReplicaReport, SetMember, StoreGroup
from tests.controller.groups.model import run


@contextmanager
def _set_reset() -> Iterator[None]:
    """The SyncStateSet of a new leader is the leader alone."""
    led = election._led
    with mock.patch.object(election, "_led", lambda group, winner, voters: led(group, winner, [])):
        yield


@contextmanager
def _names_join() -> Iterator[None]:
    """A member is an id: who joins is in the set with whatever log it has by then."""
    alter = membership.alter

    def by_id(group: StoreGroup, change: AlterSet) -> Ruling:
        now = {each.id: each.incarnation for each in group.replicas}
        joined = tuple(each if each in group.members else SetMember(each.id, now.get(each.id, "")) for each in change.members)
        return alter(group, replace(change, members=joined))

    with mock.patch.object(membership, "alter", by_id):
        yield


@contextmanager
def _wiped_disk_wins() -> Iterator[None]:
    """A replica of a member's name may be elected, whatever its log."""
    with mock.patch.object(election, "_has_kept_its_log", lambda group, member: group.replica(member.id) is not None):
        yield


@contextmanager
def _old_set_epoch() -> Iterator[None]:
    """A change of the SyncStateSet is made though the set has changed since it was asked for."""
    with mock.patch.object(
        membership,
        "_fenced",
        lambda group, change: None if change.leader == group.leader else GroupRefusal.NOT_THE_LEADER,
    ):
        yield


@contextmanager
def _leader_starts_again() -> Iterator[None]:
    """A leader that starts again leads on in its epoch, without the tail that it had not synced."""
    with mock.patch.object(registration, "without_leader", lambda group: group):
        yield


@contextmanager
def _given_up_too_soon() -> Iterator[None]:
    """An operator's recovery is made while a member of the set is there."""
    with mock.patch.object(recovery, "electorate", return_value=[]):
        yield


@contextmanager
def _anybody_wins() -> Iterator[None]:
    """An election without a candidate takes any replica that is alive, without an operator: an unclean election."""
    before = election.electorate

    def anybody(group: StoreGroup, live: Iterable[ReplicaReport], asker: int = 0) -> list[ReplicaReport]:
        live = tuple(live)
        registered = {each.member for each in group.replicas}
        return before(group, live, asker) or [each for each in live if SetMember(each.id, each.incarnation) in registered]

    with mock.patch.object(election, "electorate", anybody):
        yield


class GroupBug(NamedTuple):
    """One bug.

    seeds      how many are enough to find it
    recovers   True: in runs with recoveries by an operator
    """

    put_back: Callable[[], AbstractContextManager[None]]
    seeds: int
    recovers: bool = False


BUGS: Final[dict[str, GroupBug]] = {
    "set-reset": GroupBug(_set_reset, 50),
    "names-join": GroupBug(_names_join, 400),
    "wiped-disk-wins": GroupBug(_wiped_disk_wins, 20),
    "old-set-epoch": GroupBug(_old_set_epoch, 20),
    "leader-starts-again": GroupBug(_leader_starts_again, 20),
    "given-up-too-soon": GroupBug(_given_up_too_soon, 20, recovers=True),
    "anybody-wins": GroupBug(_anybody_wins, 20, recovers=True),
}


def first_seed(name: str, seeds: int) -> tuple[int, str]:
    """(the first seed that finds a bug, what the check says); -1 when none does."""
    with BUGS[name].put_back():
        for seed in range(seeds):
            try:
                run(seed, recovers=BUGS[name].recovers)
            except AssertionError as error:
                return seed, str(error)
    return -1, ""
