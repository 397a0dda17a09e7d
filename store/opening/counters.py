"""Figures of the store for metrics."""

from __future__ import annotations

from store.log.segment_ends import oldest_ms
from store.opening.parts import StoreParts


def figures(parts: StoreParts) -> dict[str, float]:
    """Numbers for the metrics page, by name."""
    commit = parts.commit
    return {
        "messages_total": parts.appender.messages,
        "log_bytes": parts.segments.end - parts.segments.first,
        "log_end": parts.segments.end,
        "log_oldest_ms": oldest_ms(parts.segments),
        "log_segments": len(parts.segments.all),
        "log_written_bytes_total": commit.log.written_bytes,
        "log_writes_total": commit.log.writes,
        "log_syncs_total": commit.syncs.count,
        "log_sync_seconds_total": commit.syncs.ns / 1e9,
        "log_flush_behind_bytes": commit.written - commit.synced,
        "log_waiting_bytes": commit.waiting_bytes(),
        "log_broken": 0 if commit.broken is None else 1,
        "disk_used_ratio": 1.0 - parts.admission.free_ratio,
        "disk_reads_total": parts.reader.disk_reads,
        "queues": parts.index.queue_count,
        "index_tail_rows": parts.index.tail_rows,
        "index_blocks": parts.index.blocks,
        "key_rows_in_memory": parts.keys.memory_rows,
        "key_runs": len(parts.keys.runs.all),
        "leases": parts.census.leases(),
        "lease_tables": len(parts.ledger.tables),
        "leases_expired_total": parts.ledger.expired,
        "timers": parts.wheel.pending(),
        "timers_parked_total": parts.wheel.parked,
        "timers_delivered_total": parts.wheel.delivered,
        "transactions_open": len(parts.open_transactions),
        "transactions_ended_total": parts.open_transactions.ended,
        "transactions_checked_total": parts.open_transactions.checked,
        "latest_refused_total": parts.accompaniment.refused,
        "timers_recalled_total": parts.recall.recalled,
        "state_keys": parts.state.count(),
        "state_bytes": parts.state.bytes,
        "once_keys": parts.once.keys,
        "once_repeated_total": parts.once.repeated,
        "once_evicted_total": parts.once.evicted,
        "retention_segments_deleted_total": parts.retention.deleted,
        "retention_copied_total": parts.retention.copied,
        **{f"events_{kind.value}_total": count for kind, count in parts.events.counts.items()},
        "recovered_batches": parts.recovered.batches,
        "recovered_cut_bytes": parts.recovered.cut_bytes,
        "recovered_cut_records": parts.recovered.cut_records,
        "recovered_copied_bytes": parts.recovered.copied_bytes,
        "log_open_files": parts.segments.open_files,
        "log_scrubbed_bytes_total": parts.scrubber.checked_bytes,
        "log_scrub_passes_total": parts.scrubber.passes,
        "log_damaged_parts": len(parts.scrubber.damaged),
        "reads_waiting": len(parts.repairs),
        "reads_waited_total": parts.repairs.waited,
        "reads_waited_in_vain_total": parts.repairs.in_vain,
        "reads_wait_refused_total": parts.repairs.refused,
        "log_lost_records": commit.mark.promise.lost_records,
        "log_lost_bytes": commit.mark.promise.lost_bytes,
    }
