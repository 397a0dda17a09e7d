"""A range of one queue -> record batches. Runs in the tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final, final

import pyarrow as pa

from gateway.client.answer import PullReply, QueueRoute, UnreachableError, is_remade
from gateway.client.client import Client
from gateway.client.security import KeyPlace, Tls
from gateway.connectors.spark import gather
from gateway.connectors.spark.failure import (
    DataLossError,
    OffsetAheadError,
    OffsetExpiredError,
    OffsetGapError,
    TopicRemadeError,
)
from gateway.connectors.spark.option import Options
from gateway.connectors.spark.plan import Range

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Stored bytes of one record batch: large against the fixed cost of a batch, small against the memory of a worker."""
_PAUSE_S: Final = 0.25

_log = logging.getLogger(__name__)
_clients: dict[tuple[str, float, float, Tls | None, KeyPlace | None, bool], Client] = {}


def client_of(options: Options) -> Client:
    """The client of this process for these options. Spark reuses workers for later batches, so connections are reused too."""
    key = (options.nameserver, options.timeout_s, options.retry_s, options.tls, options.key, options.followers)
    if key not in _clients:
        nameserver, timeout_s, retry_s, tls, place, followers = key
        _clients[key] = Client(nameserver, timeout_s=timeout_s, retry_s=retry_s, tls=tls, key=place, followers=followers)
    return _clients[key]


def scan(wanted: Range, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows of the range, each offset once, in order. Raises RecordError, and DataLossError unless failOnDataLoss=false."""
    return _RangeScan(wanted, options).batches(schema)


def check_epochs(ranges: Sequence[Range], options: Options) -> None:
    """After reading from brokers whose pulls do not compare epochs: raises TopicRemadeError when a topic was created again."""
    before = {one.queue: one for one in ranges if isinstance(one.epoch, tuple)}
    for queue, now in client_of(options).bounds(list(before)).items():
        if is_remade(before[queue].epoch, now.epoch):
            raise TopicRemadeError(queue, before[queue].start)


@final
class _RangeScan:
    """The scan of one range.

    _offset    offset of the next record
    _until_s   when the scan gives up on a broker that does not lead on; 0: it leads on
    """

    def __init__(self, wanted: Range, options: Options) -> None:
        self._wanted = wanted
        self._options = options
        self._client = client_of(options)
        self._offset = wanted.start
        self._until_s = 0.0

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of the range."""
        parts: list[bytes] = []
        held = 0
        for body in self._bodies():
            parts.append(body)
            held += len(body)
            if held >= CHUNK_BYTES:
                yield from self._gather(parts, schema)
                parts.clear()
                held = 0
        if held:
            yield from self._gather(parts, schema)
        self._skip(self._wanted.end)

    def _gather(self, parts: list[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of some records, after a check that they are the next ones."""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        for chunk in gather.chunks(data, self._wanted.queue, self._offset, self._wanted.end, schema, self._options.permissive):
            for start, end in chunk.gaps(self._offset):
                self._lose(OffsetGapError(self._wanted.queue, start, end))
            self._offset = max(self._offset, chunk.after)
            yield from chunk.batches(schema)

    def _bodies(self) -> Iterator[bytes]:
        """The stored bytes that contain the range, as the broker sends them."""
        offset = self._wanted.start
        while offset < self._wanted.end:
            try:
                for pull in self._client.scan(self._wanted.queue, offset, self._wanted.end, epoch=self._epoch):
                    if pull.status not in ("FOUND", "NO_MATCH") or pull.next_offset <= offset:
                        break
                    self._until_s = 0.0
                    offset = pull.next_offset
                    if pull.body:
                        yield pull.body
                else:
                    return
            except UnreachableError as error:
                if not self._options.waits:
                    raise
                _log.warning("waiting: %s", error)
                continue
            if pull.status == "MOVED" and offset < pull.min_offset:
                self._lose(OffsetExpiredError(self._wanted.queue, offset, pull.min_offset))
                offset = pull.min_offset
            elif not self._again():
                self._lose(self._reason(offset, pull))
                return

    @property
    def _epoch(self) -> int:
        return self._wanted.epoch if isinstance(self._wanted.epoch, int) else -1

    def _again(self) -> bool:
        """Wait a moment. False when the broker has not led on for `retry_s`, or has another topic of the same name."""
        now = time.monotonic()
        self._until_s = self._until_s or now + self._options.retry_s
        if now >= self._until_s or self._remade():
            return False
        time.sleep(_PAUSE_S)
        return True

    def _remade(self) -> bool:
        found = self._client.bounds([self._wanted.queue]).get(self._wanted.queue)
        return found is not None and is_remade(self._wanted.epoch, found.epoch)

    def _reason(self, offset: int, pull: PullReply) -> DataLossError:
        queue: QueueRoute = self._wanted.queue
        if pull.status == "REMADE" or self._remade():
            return TopicRemadeError(queue, offset)
        if pull.status == "NO_MATCH":
            return OffsetGapError(queue, offset, self._wanted.end)
        return OffsetAheadError(queue, self._wanted.end, pull.max_offset)

    def _skip(self, to: int) -> None:
        """The offsets up to `to` were not sent."""
        if self._offset < to and self._options.fail_on_data_loss:
            raise OffsetGapError(self._wanted.queue, self._offset, to)

    def _lose(self, error: DataLossError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        _log.warning("lost: %s", error)
