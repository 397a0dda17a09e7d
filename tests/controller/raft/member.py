"""One node with its storage and its state machine: what a driver does with raft."""

from __future__ import annotations

from collections.abc import Callable

from controller.raft.entry import EntryKind, LogEntry
from controller.raft.message import RaftMessage
from controller.raft.persisted import RaftSnapshot
from controller.raft.raft import Raft
from controller.raft.ready import ReadConfirmed, Ready
from controller.raft.settings import RaftSettings
from domain.ports import Entropy
from tests.controller.raft.memory_storage import MemoryStorage

SEPARATOR = b"\n"


class Member:
    """A running node. Its state machine is the list of all commands.

    raft      the node
    applied   index up to which the state machine has come
    state     the commands that were applied
    ready     the Ready under way, None between two
    on_apply  told of each entry when it is applied
    """

    def __init__(
        self,
        node: int,
        settings: RaftSettings,
        storage: MemoryStorage,
        entropy: Entropy,
        on_apply: Callable[[int, LogEntry], None] | None = None,
    ) -> None:
        persisted = storage.load()
        self.storage = storage
        self.raft = Raft(node, settings, persisted, entropy)
        self.applied = 0
        self.state: list[bytes] = []
        self.ready: Ready | None = None
        self.on_apply = on_apply
        self.restore(persisted.snapshot)

    def begin(self) -> Ready | None:
        """Take a Ready and write it, without a sync. None when there is nothing, or when one is under way."""
        ready = self.raft.take()
        if ready is None:
            return None
        if ready.hard_state is not None:
            self.storage.put_hard_state(ready.hard_state)
        if ready.snapshot is not None:
            self.storage.put_snapshot(ready.snapshot)
        if ready.entries:
            self.storage.put_entries(ready.entries)
        self.ready = ready
        return ready

    def finish(self) -> tuple[tuple[RaftMessage, ...], tuple[ReadConfirmed, ...], tuple[int, ...]]:
        """Sync, apply and say so. Returns the messages to send, the reads to answer and the lost ones."""
        ready = self.ready
        assert ready is not None
        self.storage.sync()
        if ready.restore and ready.snapshot is not None:
            self.restore(ready.snapshot)
        for entry in ready.committed:
            self.apply(entry)
        self.ready = None
        self.raft.persisted()
        return ready.messages, ready.reads, ready.lost_reads

    def restore(self, snapshot: RaftSnapshot) -> None:
        """Replace the state machine."""
        self.applied = snapshot.index
        self.state = snapshot.data.split(SEPARATOR) if snapshot.data else []

    def apply(self, entry: LogEntry) -> None:
        """Apply one entry."""
        assert entry.index == self.applied + 1, f"entry {entry.index} is applied behind {self.applied}"
        self.applied = entry.index
        if entry.kind is EntryKind.COMMAND:
            self.state.append(entry.data)
        if self.on_apply is not None:
            self.on_apply(self.raft.node, entry)

    def snapshot(self) -> bytes:
        """The state machine as bytes."""
        return SEPARATOR.join(self.state)
