"""Storage of one node in memory, which forgets what was not synced when the node crashes."""

from __future__ import annotations

from collections.abc import Callable

from controller.raft.entry import LogEntry
from controller.raft.persisted import HardState, Persisted, RaftSnapshot

Write = HardState | RaftSnapshot | tuple[LogEntry, ...]


class MemoryStorage:
    """The `RaftStorage` port.

    durable   what `load` finds after a crash
    pending   writes since the last sync, in order
    later     calls what ends a flush, now or later
    """

    def __init__(self, persisted: Persisted) -> None:
        self.durable = persisted
        self.pending: list[Write] = []
        self.later: Callable[[Callable[[], None]], None] = lambda step: step()
        self._crashes = 0

    def load(self) -> Persisted:
        """What is durable."""
        return self.durable

    def put_hard_state(self, hard_state: HardState) -> None:
        """Replace term and vote at the next sync."""
        self.pending.append(hard_state)

    def put_snapshot(self, snapshot: RaftSnapshot) -> None:
        """Replace the snapshot at the next sync."""
        self.pending.append(snapshot)

    def put_entries(self, entries: tuple[LogEntry, ...]) -> None:
        """Append at the next sync."""
        self.pending.append(entries)

    def sync(self) -> None:
        """Make all writes durable."""
        self._keep(len(self.pending))

    def flush(self, done: Callable[[OSError | None], None]) -> None:
        """Make all writes durable some time later; a crash before forgets them."""
        begun = self._crashes

        def flushed() -> None:
            if begun != self._crashes:
                return
            try:
                self.sync()
            except OSError as error:
                done(error)
            else:
                done(None)

        self.later(flushed)

    def crash(self, kept: int = 0) -> None:
        """The node stops: of the writes that were not synced the first `kept` are durable."""
        self._crashes += 1
        self._keep(kept)

    def _keep(self, kept: int) -> None:
        for write in self.pending[:kept]:
            self.durable = after(self.durable, write)
        self.pending.clear()


def after(persisted: Persisted, write: Write) -> Persisted:
    """What storage holds after one write: the description of the port, written down naively."""
    if isinstance(write, HardState):
        return persisted._replace(hard_state=write)
    if isinstance(write, RaftSnapshot):
        fits = any((entry.index, entry.term) == (write.index, write.term) for entry in persisted.entries)
        kept = tuple(entry for entry in persisted.entries if entry.index > write.index) if fits else ()
        return persisted._replace(snapshot=write, entries=kept)
    before = write[0].index - persisted.entries[0].index if persisted.entries else 0
    return persisted._replace(entries=persisted.entries[: max(before, 0)] + write)
