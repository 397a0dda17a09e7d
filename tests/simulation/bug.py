"""Known bugs of replication: how one is put back, and which seed of a simulation finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

Patch = tuple[Any, str, Callable[[Any], Any]]
"""(class or module, name of what is replaced, original -> what stands in its place)."""


class Bug(NamedTuple):
    """A bug.

    about     what is wrong
    seeds     within how many seeds it has to be found
    patches   how it is put back
    first     the first of these seeds
    step      between two of them
    """

    about: str
    seeds: int
    patches: tuple[Patch, ...]
    first: int = 0
    step: int = 1


@contextmanager
def put_back(bug: Bug) -> Iterator[None]:
    """Run with a bug."""
    with ExitStack() as stack:
        for owner, attribute, patch in bug.patches:
            stack.enter_context(mock.patch.object(owner, attribute, patch(getattr(owner, attribute))))
        yield


def first_seed(bug: Bug, run: Callable[[int], object]) -> tuple[int, str]:
    """(first seed whose `run` finds a bug, what it says); -1 when none does."""
    with put_back(bug):
        for seed in range(bug.first, bug.first + bug.seeds * bug.step, bug.step):
            try:
                run(seed)
            except Exception as error:
                return seed, f"{type(error).__name__}: {error}"
    return -1, ""


# What stands in the place of a method


def shrinks_early(_original: Any) -> Any:
    """`SyncStateSet.counted`: who is to be left out counts no more before the controllers have said so."""
    return lambda self: set(self.asked or self.group.members)


def forgets_who_was_asked(_original: Any) -> Any:
    """`SyncStateSet.counted`: a newcomer counts only when the answer has come."""
    return lambda self: set(self.group.members)


def applies_at_once(original: Any) -> Any:
    """`Follower.confirm`: a follower applies what is not confirmed."""
    return lambda self, position: original(self, self.written)


def counts_the_connected(_original: Any) -> Any:
    """`Leading._confirm`: confirmed is what those have who are connected."""

    def confirm(self: Any) -> None:
        positions = [(self._log.written, self._log.synced)]
        positions += [(each.written, each.synced) for each in self.followers.values() if each.connection is not None]
        self.written = max(self.written, min(each for each, _ in positions))
        self.synced = max(self.synced, min(each for _, each in positions))
        self._log.confirm(self.written, self.synced)

    return confirm
