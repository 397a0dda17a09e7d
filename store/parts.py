"""The parts of an open store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from store.append import Appender
from store.census import Census
from store.checkpoint import Checkpointer
from store.delay.recall import TimerRecall
from store.delay.wheel import Wheel
from store.events import StoreEvents
from store.keys.index import KeyIndex
from store.lease.group_removal import GroupRemoval
from store.lease.ledger import LeaseLedger
from store.log.commit import GroupCommit
from store.log.reader import RecordReader
from store.log.segment import Segments
from store.once import OnceAppends
from store.queue.index import QueueIndex
from store.recovery import Recovered
from store.retention import Retention
from store.state.view import StateView
from store.transaction.open_transactions import OpenTransactions
from store.write_admission import WriteAdmission


@final
@dataclass(frozen=True, slots=True)
class StoreParts:
    """What runs once a second, what a clean end stops, and what has figures.

    segments             the files of the log
    commit               group commit: the open batch, its write and its sync
    admission            whether writes are taken now
    appender             places messages into the open batch
    index                the queues
    keys                 the key index
    reader               reads records of the log
    state                small values by key
    ledger               lease tables and positions
    wheel                delayed messages
    recall               recall of delayed messages
    open_transactions    half messages
    checkpointer         writes checkpoints
    retention            deletes old segments
    census               counts of leases
    once                 keys of appends that are carried out once
    group_removal        deletion of groups
    events               what the store tells its owner
    recovered            what opening has read of the log
    """

    segments: Segments
    commit: GroupCommit
    admission: WriteAdmission
    appender: Appender
    index: QueueIndex
    keys: KeyIndex
    reader: RecordReader
    state: StateView
    ledger: LeaseLedger
    wheel: Wheel
    recall: TimerRecall
    open_transactions: OpenTransactions
    checkpointer: Checkpointer
    retention: Retention
    census: Census
    once: OnceAppends
    group_removal: GroupRemoval
    events: StoreEvents
    recovered: Recovered
