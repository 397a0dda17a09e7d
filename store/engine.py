"""The store of one node: log, index, state, leases and timers behind the ports of domain/ports.py."""

from __future__ import annotations

from domain.ports import Clock, Disk, Metadata, State
from store.config import StoreConfig


class LogStore:
    """MessageStore over one log. `metadata` and `state` are its other two faces."""

    metadata: Metadata
    state: State

    def __init__(self, disk: Disk, clock: Clock, config: StoreConfig) -> None:
        self.disk = disk
        self.clock = clock
        self.config = config


def open_store(disk: Disk, clock: Clock, config: StoreConfig) -> LogStore:
    """Open the store in `disk`'s data directory, recovering what a crash left. Raises StoreError when a person has to look."""
    return LogStore(disk, clock, config)
