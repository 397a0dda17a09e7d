"""Contract of a storage engine: the entry-point group `gateway.stores`.

An entry point of that group names one `StorageEngine`; its name is what `[store] engine` selects. The node does the rest:
it reads the table `[store]` into the engine's settings class, opens the store and works through the ports of
`MessageStore`. The contract suite in the folder tests/store says what each port has to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from domain.errors import StoreError
from domain.ports import Clock, Disk
from domain.replication.ports import DamagedLog, FollowerLog
from domain.store.message_store import MessageStore
from domain.store.store_event import Report

GIVEN_FIELDS = ("broker", "store_host", "durability", "fresh_incarnation", "boot", "clock_skew_ms")
"""Fields of a settings class that the node sets: they are no settings of the table `[store]`."""


@dataclass(frozen=True, slots=True)
class StorageEngine:
    """One storage engine.

    settings   frozen dataclass in which every field has a default. The node sets the fields `broker` (name that receipts
               carry), `store_host` (address bytes that records carry), `durability` (domain.topic.topic.Durability of new
               topics) and, where there is one, `fresh_incarnation` (random, 1 to 2^63 - 1: the identity of data that
               has none yet) and `boot` (text that is another one after each start of the machine); every other field is a
               setting of the table `[store]`. Where there is a field `hot_bytes`, its default is what the machine's memory
               allows
    open       opens the store on the data directory and the clock, with the settings: (disk, clock, settings,
               report). It returns when metadata and state can be read; other calls may wait. `report` gets the events
               of the store: failures of the disk, a full disk, damage. Raises StoreError when the files need repair
    follow     the same for a replica of a store group: its log, which serves when it is promoted; None: the engine's stores are
               not replicated
    damaged    the log of a replica whose opening by `follow` has raised the StoreError handed in, which says that what was
               promised is damaged; returns None when other replicas cannot help. None: the engine knows no repair
    """

    settings: type[Any]
    open: Callable[[Disk, Clock, Any, Report], MessageStore]
    follow: Callable[[Disk, Clock, Any, Report], FollowerLog] | None = None
    damaged: Callable[[Disk, Clock, StoreError], DamagedLog | None] | None = None
