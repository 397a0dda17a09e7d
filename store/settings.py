"""The settings of the store. Units are in the names: bytes, milliseconds (`_ms`), shares (`_ratio`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from domain.message.message import LOCAL_HOST
from domain.topic.topic import Durability
from domain.transaction import TransactionCheckPolicy

Amount = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of `open_store`.

    broker               broker name in receipts
    store_host           address bytes (8 or 20) in records
    durability           durability level of new topics, and of state changes without messages
    fresh_incarnation    identity of the log when it has none yet, 1 to 2^63 - 1; 0: made from the time
    boot                 which start of the machine this is; "": unknown
    clock_skew_ms        a replica that is promoted delays the ends of leases and the timers that it finds by so much: the clock
                         of the leader before it may have been that late
    segment_bytes        size of a log segment at most
    pending_bytes_max    bytes accepted but not yet answered; above it appends are refused with OVERLOADED
    cache_bytes          newest records kept in memory for consumers that keep up
    free_ratio_min       below this free share of the volume, messages are refused with STORE_UNAVAILABLE
    pressure_ratio       below this free share of the volume, the oldest messages are deleted before their time; 0: never
    pressure_keep_ms     messages younger than this are not deleted before their time
    flush_interval_ms    writes that no append waits for are synced at least this often
    flush_timeout_ms     an append that waits longer for its sync is answered FLUSH_TIMEOUT
    checkpoint_bytes     log bytes after which a checkpoint is written: after a crash the next start reads the log from there
    checkpoint_ms        time after which a checkpoint is written
    index_segment_bytes  size of one file of the queue index
    tail_rows_max        index rows kept in memory, all queues together, before the oldest are written out
    hot_bytes            newest part of the log: a group that begins at the last message begins at the first one of a queue
                         that has all its messages in this part
    retention_ms         messages are kept at least this long
    retention_bytes      total size of the log; 0: no bound
    retention_check_ms   interval of the retention checks
    scrub_days           days in which all of the log is read once and checked, in the background; 0: never
    scrub_bytes_min      bytes that are checked in a second at least, if the log has that many
    scrub_pass_s         seconds from the begin of a pass over the log to that of the next one, at least
    once_window_ms       time for which the key of an append is known: a repetition within it is not appended again
    once_keys_max        keys that are known at most; the oldest are forgotten first
    transaction_timeout_ms   age of an open transaction at its first check
    transaction_check_ms     interval of the further checks
    transaction_checks_max   number of checks
    """

    broker: str = "broker-a"
    store_host: bytes = LOCAL_HOST
    durability: Durability = Durability.FLUSHED
    fresh_incarnation: int = 0
    boot: str = ""
    clock_skew_ms: Amount = 0
    segment_bytes: Amount = 256 * 1024 * 1024
    pending_bytes_max: Amount = 64 * 1024 * 1024
    cache_bytes: Amount = 16 * 1024 * 1024
    free_ratio_min: Annotated[float, Meta(ge=0, le=1)] = 0.05
    pressure_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.10
    pressure_keep_ms: Amount = 3_600_000
    flush_interval_ms: Amount = 500
    flush_timeout_ms: Amount = 5_000
    checkpoint_bytes: Amount = 64 * 1024 * 1024
    checkpoint_ms: Amount = 60_000
    index_segment_bytes: Amount = 64 * 1024 * 1024
    tail_rows_max: Amount = 262_144
    hot_bytes: Amount = 256 * 1024 * 1024
    retention_ms: Amount = 72 * 3600 * 1000
    retention_bytes: Amount = 0
    retention_check_ms: Amount = 10_000
    scrub_days: Amount = 7
    scrub_bytes_min: Amount = 64 * 1024
    scrub_pass_s: Amount = 3_600
    once_window_ms: Amount = 3_600_000
    once_keys_max: Amount = 100_000
    transaction_timeout_ms: Amount = 6_000
    transaction_check_ms: Amount = 30_000
    transaction_checks_max: Amount = 15


def check_policy_of(config: StoreSettings) -> TransactionCheckPolicy:
    """The check policy that the settings give for open transactions."""
    return TransactionCheckPolicy(config.transaction_timeout_ms, config.transaction_check_ms, config.transaction_checks_max)
