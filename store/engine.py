"""The bundled storage engine: one log on one disk, and everything that is derived from it."""

from __future__ import annotations

from typing import Final

from domain.ports import Clock, Disk
from domain.store.storage_engine import StorageEngine
from domain.store.store_event import Report
from store.checkpoint.derived_damage import rebuilt
from store.events import StoreEvents
from store.opening.open_store import OpenStore
from store.opening.recovered_log import RecoveredLog
from store.replication.replica_log.damaged import damaged_replica
from store.replication.replica_log.follower_log import open_follower
from store.settings import StoreSettings


def open_store(disk: Disk, clock: Clock, config: StoreSettings, report: Report) -> OpenStore:
    """Open the store in `disk`'s data directory, with recovery after a crash. Raises StoreError when an operator must act.

    `report` gets the events of the store. The log is read from the last checkpoint on before the return. Reads and leases wait
    until the recovered log is durable. Damaged files that are derived from the log are built again from the whole log.
    """
    events = StoreEvents(report, clock)

    def opened() -> OpenStore:
        log = RecoveredLog(disk, clock, config, events, True)
        return OpenStore(log, log.result, log.promise, log.files.points)

    return rebuilt(disk, events, opened)


LOG: Final = StorageEngine(StoreSettings, open_store, open_follower, damaged_replica)
"""The entry point `log` of the group `gateway.stores`."""
