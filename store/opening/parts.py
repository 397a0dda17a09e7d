"""The parts under the ports of an open store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from store.appends.append import Appender
from store.appends.once import OnceAppends
from store.checkpoint.checkpointer import Checkpointer
from store.checkpoint.recovery import Recovered
from store.delay.accompaniment import Accompaniment
from store.delay.recall import TimerRecall
from store.delay.wheel import Wheel
from store.deletion.retention import Retention
from store.disk_full.admission import WriteAdmission
from store.events import StoreEvents
from store.keys.index import KeyIndex
from store.lease.group_removal import GroupRemoval
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_count import LeaseCount
from store.log.commit import GroupCommit
from store.log.reader import RecordReader
from store.log.scrub import Scrubber
from store.log.segment import Segments
from store.queue.index import QueueIndex
from store.reads.repair_waits import RepairWaits
from store.state.view import StateView
from store.transaction.open_transactions import OpenTransactions


@final
@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of an open store that run once a second, that a clean end stops, or that have figures.

    accompaniment   changes that go with late deliveries
    census          counts of leases
    once            keys of appends that are carried out once
    """

    segments: Segments
    commit: GroupCommit
    admission: WriteAdmission
    appender: Appender
    index: QueueIndex
    keys: KeyIndex
    reader: RecordReader
    state: StateView
    ledger: JournaledTables
    wheel: Wheel
    recall: TimerRecall
    accompaniment: Accompaniment
    open_transactions: OpenTransactions
    checkpointer: Checkpointer
    retention: Retention
    scrubber: Scrubber
    census: LeaseCount
    once: OnceAppends
    group_removal: GroupRemoval
    events: StoreEvents
    recovered: Recovered
    repairs: RepairWaits
