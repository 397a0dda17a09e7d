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
from store.lease.journaled_tables import JournaledTables
from store.lease.lease_count import LeaseCount
from store.lease.positions import GroupRemoval
from store.log.commit import GroupCommit
from store.log.reader import RecordReader
from store.log.scrub import Scrubber
from store.log.segment import Segments
from store.log.segment_ends import oldest_ms
from store.queue.index import QueueIndex
from store.reads.repair_waits import RepairWaits
from store.state.view import StateView
from store.transaction.open_transactions import OpenTransactions


@final
@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of an open store that run once a second, that a clean end stops, or that have figures."""

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

    def figures(self) -> dict[str, float]:
        """Numbers for the metrics page, by name."""
        commit = self.commit
        return {
            "messages_total": self.appender.messages,
            "log_bytes": self.segments.end - self.segments.first,
            "log_end": self.segments.end,
            "log_oldest_ms": oldest_ms(self.segments),
            "log_segments": len(self.segments.all),
            "log_written_bytes_total": commit.log.written_bytes,
            "log_writes_total": commit.log.writes,
            "log_syncs_total": commit.syncs.work.count,
            "log_sync_seconds_total": commit.syncs.work.ns / 1e9,
            "log_flush_behind_bytes": commit.written - commit.synced,
            "log_waiting_bytes": commit.waiting_bytes(),
            "log_broken": 0 if commit.faults.broken is None else 1,
            "clock_ahead_seconds": commit.time.ahead_ms / 1000,
            "disk_used_ratio": 1.0 - self.admission.free_ratio,
            "disk_reads_total": self.reader.disk_reads,
            "queues": self.index.queue_count,
            "index_tail_rows": self.index.tail_rows,
            "index_blocks": self.index.blocks,
            "key_rows_in_memory": self.keys.memory_rows,
            "key_runs": len(self.keys.runs.all),
            "leases": self.census.leases(),
            "lease_tables": len(self.ledger.tables),
            "leases_expired_total": self.ledger.expired,
            "timers": self.wheel.pending(),
            "timers_parked_total": self.wheel.parked,
            "timers_delivered_total": self.wheel.delivered,
            "transactions_open": len(self.open_transactions),
            "transactions_ended_total": self.open_transactions.ended,
            "transactions_checked_total": self.open_transactions.checks.sent,
            "latest_refused_total": self.accompaniment.refused,
            "timers_recalled_total": self.recall.recalled,
            "state_keys": self.state.count(),
            "state_bytes": self.state.bytes,
            "once_keys": self.once.keys,
            "once_repeated_total": self.once.repeated,
            "once_evicted_total": self.once.evicted,
            "retention_segments_deleted_total": self.retention.deleted,
            "retention_copied_total": self.retention.copied,
            **{f"events_{kind.value}_total": count for kind, count in self.events.counts.items()},
            "recovered_batches": self.recovered.batches,
            "recovered_cut_bytes": self.recovered.cut_bytes,
            "recovered_cut_records": self.recovered.cut_records,
            "recovered_copied_bytes": self.recovered.copied_bytes,
            "log_open_files": self.segments.open_files,
            "log_scrubbed_bytes_total": self.scrubber.checked_bytes,
            "log_scrub_passes_total": self.scrubber.passes,
            "log_damaged_parts": len(self.scrubber.damaged),
            "reads_waiting": len(self.repairs),
            "reads_waited_total": self.repairs.waited,
            "reads_waited_in_vain_total": self.repairs.in_vain,
            "reads_wait_refused_total": self.repairs.refused,
            "log_lost_records": commit.mark.promise.lost_records,
            "log_lost_bytes": commit.mark.promise.lost_bytes,
        }
