"""The store in numbers."""

from __future__ import annotations

from store.core import Core


def figures(core: Core) -> dict[str, float]:
    """Numbers for the metrics page, by name."""
    commit = core.commit
    return {
        "messages_total": core.appender.messages,
        "log_bytes": core.segments.end - core.segments.first,
        "log_end": core.segments.end,
        "log_oldest_ms": core.segments.oldest_ms(),
        "log_segments": len(core.segments.all),
        "log_written_bytes_total": commit.written_bytes,
        "log_writes_total": commit.writes,
        "log_syncs_total": commit.syncs,
        "log_sync_seconds_total": commit.sync_ns / 1e9,
        "log_flush_behind_bytes": commit.written - commit.synced,
        "log_waiting_bytes": commit.waiting_bytes(),
        "log_broken": 0 if commit.broken is None else 1,
        "disk_used_ratio": 1.0 - core.free,
        "disk_reads_total": core.reader.disk_reads,
        "queues": sum(len(entry.queues) for entry in core.index.topics.values()),
        "index_tail_rows": core.index.tail_rows,
        "index_blocks": core.index.blocks,
        "key_rows_in_memory": core.keys.memory_rows,
        "key_runs": core.keys.runs,
        "leases": core.ledger.leased(),
        "lease_tables": len(core.ledger.tables),
        "leases_expired_total": core.ledger.expired,
        "timers": core.wheel.pending(),
        "timers_parked_total": core.wheel.parked,
        "timers_delivered_total": core.wheel.delivered,
        "transactions_open": len(core.open_transactions),
        "transactions_ended_total": core.open_transactions.ended,
        "transactions_checked_total": core.open_transactions.checked,
        "timers_recalled_total": core.timer_recall.recalled,
        "state_keys": core.state.count(),
        "state_bytes": core.state.bytes,
        "retention_segments_deleted_total": core.retention.deleted,
        "retention_copied_total": core.retention.copied,
        "recovered_batches": core.recovered.batches,
        "recovered_cut_bytes": core.recovered.cut_bytes,
    }
