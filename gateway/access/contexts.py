"""The security contexts of users for OSCORE (RFC 8613), in memory and in the store.

State space `oscore`, each value a JSON document: `c` + user: the context; `r` + user: its runs; `f`: the highest run of the
contexts that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

import msgspec

from domain.access.oscore import OscoreContext
from domain.admin.oscore import RUNS_MAX
from domain.errors import ErrorCode, Failure
from domain.store.store_ports import State, StateChange

SPACE: Final = "oscore"
FLOOR_KEY: Final = b"f"
SKIPPED: Final = 16
"""Runs of each context that are left out after a start: with the durability `page`, the records of the last ones may be lost in
a power failure, and their numbers must not be used again."""

Done = Callable[[None | Failure], None]


class Followed(Protocol):
    """Source of the values of small spaces of the state."""

    def follow(self, space: str, changed: Callable[[bytes, bytes | None], None]) -> None:
        """See `domain.store.store_ports.State.follow`."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one context.

    last     the last run that was given
    holder   the number of the process that executes requests; 0: none yet
    """

    last: int
    holder: int = 0


@final
class ContextRecords:
    """`domain.access.oscore.OscoreContexts`, and their changes."""

    def __init__(self, state: State | None, followed: Followed | None, elsewhere: str, on_change: Callable[[], None]) -> None:
        """See `gateway.access.records.AccessRecords`. `on_change` is called after every change of a context."""
        self._on_change = on_change
        self._state = state
        self._elsewhere = elsewhere
        self.by_user: dict[str, OscoreContext] = {}
        self._by_ids: dict[tuple[bytes, bytes | None], OscoreContext] = {}
        self._runs: dict[str, Runs] = {}
        self._given: dict[str, Runs] = {}
        self._begun: set[str] = set()
        self._floor = 0
        source = state if followed is None else followed
        if source is not None:
            source.follow(SPACE, self._changed)

    def _changed(self, key: bytes, value: bytes | None) -> None:
        if key[:1] == b"c":
            self._context(key[1:].decode(), value)
            return
        if key == FLOOR_KEY:
            self._floor = max(self._floor, msgspec.json.decode(value, type=Runs).last if value is not None else 0)
        elif value is None:
            self._runs.pop(key[1:].decode(), None)
        else:
            self._runs[key[1:].decode()] = msgspec.json.decode(value, type=Runs)

    def _context(self, user: str, value: bytes | None) -> None:
        before = self.by_user.pop(user, None)
        if before is not None and self._by_ids.get(_ids(before)) is before:
            del self._by_ids[_ids(before)]
        if value is not None:
            found = self.by_user[user] = msgspec.json.decode(value, type=OscoreContext)
            self._by_ids[_ids(found)] = found
        self._on_change()

    def find(self, device_id: bytes, id_context: bytes | None) -> OscoreContext | None:
        """See `domain.access.oscore.OscoreContexts`."""
        return self._by_ids.get((device_id, id_context))

    def holder(self, user: str) -> int:
        """See `domain.access.oscore.OscoreContexts`."""
        runs = self._runs.get(user)
        return 0 if runs is None else runs.holder

    def put(self, context: OscoreContext, done: Done) -> None:
        """Add or replace the context of a user, whose identifiers no other user's has."""
        other = self._by_ids.get(_ids(context))
        if other is not None and other.user != context.user:
            done(Failure(ErrorCode.ARGUMENT_ILLEGAL, "another user has a context with this device_id and id_context"))
            return
        self._put([StateChange(SPACE, b"c" + context.user.encode(), msgspec.json.encode(context))], done)

    def removal(self, user: str) -> list[StateChange]:
        """The changes that remove the context of a user. The numbers of its runs are not given again."""
        changes = [StateChange(SPACE, kind + user.encode(), None) for kind in (b"c", b"r")]
        self._begun.discard(user)
        last = self._latest(user).last
        if last > self._floor:
            self._floor = last
            changes.append(StateChange(SPACE, FLOOR_KEY, msgspec.json.encode(Runs(last))))
        return changes

    def drop(self, user: str, done: Done) -> None:
        """Remove the context of a user."""
        self._put(self.removal(user), done)

    def reserve(self, user: str, done: Callable[[int | Failure], None]) -> None:
        """Give the next run of a user's context, durably before `done`."""
        if user not in self.by_user:
            done(Failure(ErrorCode.ARGUMENT_ILLEGAL, f"User:{user} has no security context"))
            return
        runs = self._latest(user)
        run = max(runs.last, self._floor) + (1 if user in self._begun else SKIPPED)
        if run > RUNS_MAX:
            done(Failure(ErrorCode.QUOTA, f"User:{user} needs another security context: its numbers are used up"))
            return
        self._begun.add(user)
        self._set_runs(user, Runs(run, runs.holder), lambda failure: done(run if failure is None else failure))

    def hold(self, user: str, holder: int, before: int, done: Done) -> None:
        """Make the process `holder` the one that executes the requests of a user's context, if `before` was that one."""
        runs = self._latest(user)
        if user not in self.by_user:
            done(Failure(ErrorCode.ARGUMENT_ILLEGAL, f"User:{user} has no security context"))
        elif runs.holder not in (before, holder):
            done(Failure(ErrorCode.CHANGED, f"another process executes the requests of User:{user}"))
        else:
            self._set_runs(user, Runs(runs.last, holder), done)

    def _latest(self, user: str) -> Runs:
        """The runs of a context, with those that are given but not durable yet."""
        return self._given.get(user) or self._runs.get(user) or Runs(0)

    def _set_runs(self, user: str, runs: Runs, done: Done) -> None:
        self._given[user] = runs

        def settled(failure: None | Failure) -> None:
            if self._given.get(user) is runs:
                del self._given[user]
            done(failure)

        self._put([StateChange(SPACE, b"r" + user.encode(), msgspec.json.encode(runs))], settled)

    def _put(self, changes: Sequence[StateChange], done: Done) -> None:
        if self._state is None:
            done(Failure(ErrorCode.NOT_SUPPORTED, f"security contexts are changed {self._elsewhere}"))
        else:
            self._state.put(changes, done)


def _ids(context: OscoreContext) -> tuple[bytes, bytes | None]:
    return context.device_id, context.id_context
