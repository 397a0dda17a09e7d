"""The store's settings. Bytes, milliseconds and shares, as the names say."""

from __future__ import annotations

from dataclasses import dataclass

from domain.message import LOCAL_HOST
from domain.topic import Durability
from domain.transaction import TransactionCheckPolicy


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """What `open_store` needs to know.

    broker               name that receipts carry
    store_host           address bytes (8 or 20) that records carry
    durability           level of new topics, and of state that accompanies no message
    segment_bytes        a log segment is closed before it would grow beyond this
    pending_bytes_max    bytes accepted but not yet answered; above it appends are refused with OVERLOADED
    cache_bytes          newest records kept in memory for live consumers
    free_ratio_min       below this free share of the volume, messages are refused with STORE_UNAVAILABLE
    flush_interval_ms    what nobody waits for is synced at least this often
    flush_timeout_ms     an append that waits longer for its sync is answered FLUSH_TIMEOUT
    checkpoint_bytes     log bytes, and
    checkpoint_ms        time, after which the derived state is checkpointed: what a crash makes the next start read again
    index_segment_bytes  size of one file of the queue index
    tail_rows_max        index rows kept in memory, all queues together, before the oldest are written out
    hot_bytes            the newest part of the log that counts as in memory: a queue that has its first message there is read
                         from it also by a new group that begins at the last message
    retention_ms         messages live at least this long; retention_bytes: total size of the log, 0 for no bound
    retention_check_ms   how often retention looks
    transaction_timeout_ms, transaction_check_ms, transaction_checks_max
                         when producers are first asked about an open transaction, how often then, and how many times
    """

    broker: str = "broker-a"
    store_host: bytes = LOCAL_HOST
    durability: Durability = Durability.FLUSHED
    segment_bytes: int = 256 * 1024 * 1024
    pending_bytes_max: int = 64 * 1024 * 1024
    cache_bytes: int = 16 * 1024 * 1024
    free_ratio_min: float = 0.05
    flush_interval_ms: int = 500
    flush_timeout_ms: int = 5_000
    checkpoint_bytes: int = 64 * 1024 * 1024
    checkpoint_ms: int = 60_000
    index_segment_bytes: int = 64 * 1024 * 1024
    tail_rows_max: int = 262_144
    hot_bytes: int = 256 * 1024 * 1024
    retention_ms: int = 72 * 3600 * 1000
    retention_bytes: int = 0
    retention_check_ms: int = 10_000
    transaction_timeout_ms: int = 6_000
    transaction_check_ms: int = 30_000
    transaction_checks_max: int = 15


def check_policy_of(config: StoreConfig) -> TransactionCheckPolicy:
    """What the settings say about open transactions."""
    return TransactionCheckPolicy(config.transaction_timeout_ms, config.transaction_check_ms, config.transaction_checks_max)
