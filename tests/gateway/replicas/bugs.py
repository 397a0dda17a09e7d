"""Known bugs of replication, which the simulation has to find when they are put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from store.replica import follower
from store.replication import leading, members
from tests.gateway.replicas.world import HistoryError, run


class Bug(NamedTuple):
    """A bug.

    about    what is wrong, for the page
    seeds    within how many seeds it has to be found
    owner    class that is patched
    name     its method
    patch    original -> what stands in its place
    """

    about: str
    seeds: int
    owner: type
    name: str
    patch: Callable[[Any], Any]


def _shrinks_early(_original: Any) -> Any:
    return lambda self: set(self.asked or self.group.members)


def _forgets_who_was_asked(_original: Any) -> Any:
    return lambda self: set(self.group.members)


def _takes_in_too_early(_original: Any) -> Any:
    def may_join(self: Any, follower: Any, _now_ns: int) -> bool:
        known = self.group.replica(follower.id)
        return follower.connection is not None and known is not None and known.incarnation == str(follower.incarnation)

    return may_join


def _counts_the_connected(_original: Any) -> Any:
    def confirm(self: Any) -> None:
        positions = [(self._log.written, self._log.synced)]
        positions += [(each.written, each.synced) for each in self.followers.values() if each.connection is not None]
        self.written = max(self.written, min(each for each, _ in positions))
        self.synced = max(self.synced, min(each for _, each in positions))
        self._log.confirm(self.written, self.synced)

    return confirm


def _takes_written_for_synced(original: Any) -> Any:
    def has(self: Any, member: Any) -> tuple[int, int]:
        written, _ = original(self, member)
        return written, written

    return has


def _applies_at_once(original: Any) -> Any:
    return lambda self, position: original(self, self.written)


BUGS: Final = {
    "shrinks-early": Bug("who is to be left out counts no more before the controllers have said so", 100, members.SyncStateSet,
                         "counted", _shrinks_early),
    "forgets-the-asked": Bug("a newcomer counts only when the answer has come", 300, members.SyncStateSet, "counted",
                             _forgets_who_was_asked),
    "joins-too-early": Bug("a newcomer is taken in before it has what is confirmed", 300, leading.Leading, "_may_join",
                           _takes_in_too_early),
    "counts-the-connected": Bug("confirmed is what those have who are connected", 50, leading.Leading, "_confirm",
                                _counts_the_connected),
    "written-is-synced": Bug("what is written counts as durable", 300, leading.Leading, "_has", _takes_written_for_synced),
    "applies-at-once": Bug("a follower applies what is not confirmed", 100, follower.Follower, "confirm", _applies_at_once),
}  # fmt: skip


@contextmanager
def put_back(name: str) -> Iterator[None]:
    """Run with a bug."""
    bug = BUGS[name]
    original = getattr(bug.owner, bug.name)
    setattr(bug.owner, bug.name, bug.patch(original))
    try:
        yield
    finally:
        setattr(bug.owner, bug.name, original)


def first_seed(name: str) -> tuple[int, str]:
    """(first seed that finds a bug, what it says); -1 when none does."""
    with put_back(name):
        for seed in range(BUGS[name].seeds):
            try:
                run(seed)
            except HistoryError as error:
                return seed, str(error)
    return -1, ""
