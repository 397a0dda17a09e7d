"""The readers that Spark calls: one for a batch query, one for a streaming query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from gateway.client.answer import QueueRoute
from gateway.connectors.spark import offset as offsets
from gateway.connectors.spark.catalog import Catalog
from gateway.connectors.spark.failure import OffsetAheadError, OffsetBackwardError
from gateway.connectors.spark.offset import Position
from gateway.connectors.spark.option import Options
from gateway.connectors.spark.plan import Range, divide, limit_rows
from gateway.connectors.spark.scan import scan


class TaskPartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class _RangeReader:
    """What both readers do: planning a range of positions, and reading a share of it. Pickled into the tasks."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def _plan(self, catalog: Catalog, start: Position, end: Position) -> list[TaskPartition]:
        ranges = catalog.available([Range(queue, start[queue], end[queue]) for queue in sorted(end)])
        return [TaskPartition(ranges) for ranges in divide(ranges, self._options.partition_rows, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. A batch query without rows gets one partition that is no TaskPartition."""
        if isinstance(partition, TaskPartition):
            for one in partition.ranges:
                yield from scan(one, self._options, self._schema)


class BatchReader(_RangeReader, DataSourceReader):
    """Reads from the starting to the ending offsets, as they are when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        """Plan. Raises NoSuchTopicError, OffsetExpiredError, OffsetAheadError, OffsetBackwardError."""
        catalog = Catalog(self._options)
        start = catalog.starting()
        end = catalog.ending()
        for queue in start:
            if start[queue] > end.setdefault(queue, start[queue]):
                raise OffsetBackwardError(queue, start[queue], end[queue])
        return list(self._plan(catalog, start, {queue: end[queue] for queue in start}))


class StreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on. One instance answers all calls about offsets; what `read` needs travels in the TaskPartition."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        super().__init__(options, schema)
        self._start: offsets.Document | None = None
        self._target: Position | None = None
        self._known: Catalog | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema, "_start": None, "_target": None, "_known": None}

    def initialOffset(self) -> offsets.Document:  # noqa: N802
        """Where the options say the query starts, the same at every call: the engine asks twice for a first batch."""
        if self._start is None:
            self._start = offsets.initial(self._catalog().starting())
        return self._start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Option maxOffsetsPerTrigger."""
        return ReadMaxRows(self._options.trigger_rows) if self._options.trigger_rows else ReadAllAvailable()

    def latestOffset(self, start: offsets.Document, limit: ReadLimit) -> offsets.Document:  # noqa: N802
        """How far the next batch goes. Queues that are gone keep their position, new ones begin at their first offset.

        So do those that a query without failOnDataLoss finds shorter than it left them: their topic was made again.
        The first batch of a query is planned even when it is empty: that writes the query's start into the checkpoint.
        Raises NoSuchTopicError, OffsetAheadError.
        """
        begin = offsets.read(start)
        bounds = self._catalog().bounds()
        latest = {queue: after for queue, (_, after) in bounds.items()} if self._target is None else self._target
        origin = {queue: self._start_offset(queue, begin, bounds[queue]) for queue in latest if queue in bounds}
        lags = {queue: latest[queue] - offset for queue, offset in origin.items()}
        admitted = limit_rows(lags, limit.max_rows) if isinstance(limit, ReadMaxRows) else lags
        end = begin | {queue: origin[queue] + admitted[queue] for queue in origin if admitted.get(queue, 0) > 0}
        if offsets.is_initial(start):
            return offsets.first_end(end, start)
        return start if end == begin else offsets.document(end)

    def _start_offset(self, queue: QueueRoute, begin: Position, edges: tuple[int, int]) -> int:
        """Where a queue is read on."""
        first, after = edges
        if begin.get(queue, first) <= after:
            return begin.get(queue, first)
        if self._options.fail_on_data_loss:
            raise OffsetAheadError(queue, begin[queue], after)
        return first

    def reportLatestOffset(self) -> offsets.Document:  # noqa: N802
        """The end of all queues, for the query's progress: lag is this less the batch's end."""
        return offsets.document({queue: after for queue, (_, after) in self._catalog().bounds().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze how far this run goes. Queues that appear later wait for the next run."""
        self._target = {queue: after for queue, (_, after) in self._catalog().bounds().items()}

    def partitions(self, start: offsets.Document, end: offsets.Document) -> list[TaskPartition]:
        """Plan one batch from its two offsets alone. Raises OffsetExpiredError, OffsetAheadError, OffsetBackwardError."""
        begin = offsets.start_of(start, end)
        stop = offsets.decode(end["q"])
        catalog = self._catalog()
        restarted = [queue for queue in stop if queue not in begin]
        for queue in stop:
            if begin.get(queue, 0) > stop[queue]:
                if self._options.fail_on_data_loss:
                    raise OffsetBackwardError(queue, begin[queue], stop[queue])
                restarted.append(queue)
        if restarted:
            bounds = catalog.bounds()
            begin |= {queue: min(bounds.get(queue, (0, 0))[0], stop[queue]) for queue in restarted}
        return self._plan(catalog, begin, stop)

    def stop(self) -> None:
        """Nothing is held for a query: connections belong to the process."""

    def _catalog(self) -> Catalog:
        if self._known is None:
            self._known = Catalog(self._options)
        return self._known
