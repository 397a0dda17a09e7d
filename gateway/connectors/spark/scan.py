"""A range of one queue -> record batches. Runs in the tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from gateway.client.client import Client
from gateway.connectors.spark import gather
from gateway.connectors.spark.failure import OffsetAheadError, OffsetExpiredError
from gateway.connectors.spark.option import Options
from gateway.connectors.spark.plan import Range

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Stored bytes of one record batch: large against the fixed cost of a batch, small against the memory of a worker."""

_log = logging.getLogger(__name__)
_clients: dict[tuple[str, float, float], Client] = {}


def client_of(options: Options) -> Client:
    """The client of this process for these options. Spark reuses workers for later batches, so connections are reused too."""
    key = (options.nameserver, options.timeout_s, options.retry_s)
    if key not in _clients:
        _clients[key] = Client(options.nameserver, timeout_s=options.timeout_s, retry_s=options.retry_s)
    return _clients[key]


def scan(wanted: Range, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows of the range in offset order. Raises OffsetExpiredError, OffsetAheadError with failOnDataLoss; RecordError."""
    parts: list[bytes] = []
    held = 0
    for body in _bodies(wanted, options):
        parts.append(body)
        held += len(body)
        if held >= CHUNK_BYTES:
            yield from _batches(parts, wanted, options, schema)
            parts.clear()
            held = 0
    if held:
        yield from _batches(parts, wanted, options, schema)


def _batches(parts: list[bytes], wanted: Range, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return gather.batches(data, wanted.queue, wanted.start, wanted.end, schema, options.permissive)


def _bodies(wanted: Range, options: Options) -> Iterator[bytes]:
    """The stored bytes that contain the range. Without failOnDataLoss, missing offsets are skipped and logged."""
    client = client_of(options)
    offset = wanted.start
    while offset < wanted.end:
        for pull in client.scan(wanted.queue, offset, wanted.end):
            if pull.status in {"FOUND", "NO_MATCH"}:
                offset = max(pull.next_offset, offset)
                if pull.body:
                    yield pull.body
            elif offset < pull.min_offset:
                if options.fail_on_data_loss:
                    raise OffsetExpiredError(wanted.queue, offset, pull.min_offset)
                _log.warning("lost: %s offsets %d to %d", wanted.queue, offset, min(pull.min_offset, wanted.end) - 1)
                offset = pull.min_offset
                break
            else:
                if options.fail_on_data_loss:
                    raise OffsetAheadError(wanted.queue, offset, pull.max_offset)
                _log.warning("lost: %s offsets %d to %d", wanted.queue, offset, wanted.end - 1)
                return
