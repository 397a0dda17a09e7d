"""Appends of the parts of the store to the log: one method for each kind of write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain.address import HALF_TOPIC
from domain.errors import Failure
from domain.message.message import Message, Placed
from domain.store.store_ports import StateChange
from domain.topic.topic import Durability
from store.appends.append import Appender
from store.disk_full.admission import WriteAdmission
from store.log.commit import GroupCommit
from store.log.open_batch import Done
from store.queue.queue import Queue


@final
class StoreWriter:
    """Appends messages and state changes at the level that each kind of write has."""

    def __init__(self, appender: Appender, admission: WriteAdmission, commit: GroupCommit, durability: Durability) -> None:
        """`durability`: the store's default level."""
        self._appender = appender
        self._admission = admission
        self._commit = commit
        self._flushed_default = durability.waits_for_sync

    def refusal(self, messages: Sequence[Message] = ()) -> Failure | None:
        """Failure of an append of these messages now; None when the store takes them."""
        failure = self._admission.refusal()
        if failure is not None:
            return failure
        commit = self._commit
        stalled = commit.syncs.timeouts.stalled
        if stalled is not None and self._appender.waits_for_sync(messages, self._flushed_default):
            return stalled
        if commit.confirmation is not None and not self._appender.is_local(messages):
            return commit.confirmation.shortage() or commit.confirmation.stalled
        return None

    def append_changes(self, changes: Sequence[StateChange], done: Done | None) -> None:
        """Append state changes at the store's default level; refused when the store takes nothing."""
        failure = self.refusal()
        if failure is None:
            self._appender.add((), changes, done, self._flushed_default)
        elif done is not None:
            done(failure)

    def append_made(self, make: Callable[[], Sequence[StateChange]], done: Done | None) -> None:
        """Append the changes that `make` returns, at the store's default level. `make` also makes them in memory, so it is
        called only when the store takes them: memory never loses values that the log still has."""
        failure = self.refusal()
        if failure is None:
            self._appender.add((), make(), done, self._flushed_default)
        elif done is not None:
            done(failure)

    def put(
        self,
        messages: Sequence[Message],
        changes: Sequence[StateChange],
        done: Done | None,
        placed_at: Callable[[Sequence[Placed]], None] | None = None,
    ) -> None:
        """Append in one commit without asking for a refusal. Changes alone take the store's default level.

        `placed_at` as in `Appender.add`.
        """
        self._appender.add(messages, changes, done, not messages and self._flushed_default, placed_at)

    def deliver(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Append due messages and the progress of their delivery in one commit; refused when the store takes nothing."""
        failure = self.refusal(messages)
        if failure is None:
            self._appender.add(messages, changes, done, False)
        else:
            done(failure)

    def journal(self, changes: Sequence[StateChange], page: Done | None, flushed: Done | None) -> None:
        """Append changes already made in memory. `page` is called after the write, `flushed` after its sync."""
        if changes:
            self._appender.journal(changes)
        if page is not None:
            self._appender.add((), (), page, False)
        if flushed is not None:
            self._appender.add((), (), flushed, True)

    def newest(self) -> int:
        """Position where the batch of the newest append begins: the log has reached the append when it is beyond that."""
        return self._commit.newest_batch

    def reached(self, flushed: bool) -> int:
        """See ReachedLog."""
        return self._commit.reached(flushed)

    @property
    def alone(self) -> bool:
        """See ReachedLog."""
        return self._commit.confirmation is None

    def schedule_journal(self) -> None:
        """End this turn of the loop with a write: the journal of the lease tables goes before it."""
        self._commit.accepted.wake()

    def half_queue(self) -> Queue:
        """The queue of half messages; created when it does not exist."""
        return self._appender.queue(HALF_TOPIC, 0)
