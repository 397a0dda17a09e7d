"""The readers that Spark calls, for batch queries and for streaming queries."""

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
    """The ranges that one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class _RangeReader:
    """Planning and reading of ranges, for both readers. Spark pickles it into each task."""

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def _plan(self, catalog: Catalog, start: Position, end: Position) -> list[TaskPartition]:
        ranges = catalog.available([Range(queue, start[queue], end[queue]) for queue in sorted(end)])
        return [TaskPartition(ranges) for ranges in divide(ranges, self._options.partition_rows, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. For a batch query without rows, Spark passes a partition that is not a TaskPartition."""
        if isinstance(partition, TaskPartition):
            for one in partition.ranges:
                yield from scan(one, self._options, self._schema)


class BatchReader(_RangeReader, DataSourceReader):
    """The reader of a batch query: from the starting to the ending offsets, resolved when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        """The tasks of the query. Raises NoSuchTopicError, OffsetExpiredError, OffsetAheadError, OffsetBackwardError."""
        catalog = Catalog(self._options)
        start = catalog.starting()
        end = catalog.ending()
        for queue in start:
            if start[queue] > end.setdefault(queue, start[queue]):
                raise OffsetBackwardError(queue, start[queue], end[queue])
        return list(self._plan(catalog, start, {queue: end[queue] for queue in start}))


class StreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a streaming query. Offsets are computed in one instance; `read` runs in the tasks, from a TaskPartition.

    _start   first offset of the query; None: not computed yet
    _target  end of an AvailableNow run; None: the run has no end
    _known   catalog of the query; None: not created yet
    """

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        super().__init__(options, schema)
        self._start: offsets.Document | None = None
        self._target: Position | None = None
        self._known: Catalog | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema, "_start": None, "_target": None, "_known": None}

    def initialOffset(self) -> offsets.Document:  # noqa: N802
        """Where the query starts, from its options. Computed once: Spark calls this twice for the first batch."""
        if self._start is None:
            self._start = offsets.initial(self._catalog().starting())
        return self._start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of option maxOffsetsPerTrigger."""
        return ReadMaxRows(self._options.trigger_rows) if self._options.trigger_rows else ReadAllAvailable()

    def latestOffset(self, start: offsets.Document, limit: ReadLimit) -> offsets.Document:  # noqa: N802
        """The end of the next batch.

        Queues that no longer exist keep their position; new queues begin at their first offset. Without failOnDataLoss, so do
        queues that end before their position: their topic was deleted and created again. The first batch of a query is planned
        even when it is empty, so that the start of the query is in the checkpoint.
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
        """The offset at which the next batch starts in a queue."""
        first, after = edges
        if begin.get(queue, first) <= after:
            return begin.get(queue, first)
        if self._options.fail_on_data_loss:
            raise OffsetAheadError(queue, begin[queue], after)
        return first

    def reportLatestOffset(self) -> offsets.Document:  # noqa: N802
        """The end of each queue, for the progress of the query: the lag is this minus the end of the batch."""
        return offsets.document({queue: after for queue, (_, after) in self._catalog().bounds().items()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run. Queues that appear later are read by the next run."""
        self._target = {queue: after for queue, (_, after) in self._catalog().bounds().items()}

    def partitions(self, start: offsets.Document, end: offsets.Document) -> list[TaskPartition]:
        """The tasks of one batch. Raises OffsetExpiredError, OffsetAheadError, OffsetBackwardError."""
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
        """Does nothing: connections belong to the process, not to the query."""

    def _catalog(self) -> Catalog:
        if self._known is None:
            self._known = Catalog(self._options)
        return self._known
