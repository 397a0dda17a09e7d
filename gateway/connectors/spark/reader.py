"""The readers that Spark calls, for batch queries and for streaming queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from gateway.client.answer import Edges, QueueRoute
from gateway.connectors.spark import offset as offsets
from gateway.connectors.spark.advance import Step, advance
from gateway.connectors.spark.catalog import Catalog
from gateway.connectors.spark.failure import OffsetBackwardError
from gateway.connectors.spark.offset import Epochs, Position
from gateway.connectors.spark.option import Options
from gateway.connectors.spark.plan import Range, divide
from gateway.connectors.spark.scan import check_epochs, scan


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

    def _plan(self, catalog: Catalog, start: Position, end: Position, epochs: Epochs) -> list[TaskPartition]:
        ranges = catalog.available([Range(queue, start[queue], end[queue], epochs.get(queue)) for queue in sorted(end)])
        return [TaskPartition(ranges) for ranges in divide(ranges, self._options.partition_rows, self._options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. For a batch query without rows, Spark passes a partition that is not a TaskPartition."""
        if isinstance(partition, TaskPartition):
            for one in partition.ranges:
                yield from scan(one, self._options, self._schema)
            check_epochs(partition.ranges, self._options)


class BatchReader(_RangeReader, DataSourceReader):
    """The reader of a batch query: from the starting to the ending offsets, resolved when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        """The tasks of the query. Raises MissingError, DataLossError, OffsetBackwardError, OptionError."""
        catalog = Catalog(self._options)
        edges = catalog.whole()
        start = catalog.starting(edges)
        end = catalog.ending(edges)
        for queue in start:
            if start[queue] > end.setdefault(queue, start[queue]):
                raise OffsetBackwardError(queue, start[queue], end[queue])
        epochs = {queue: edges[queue].epoch for queue in start}
        catalog.hold(start)
        return list(self._plan(catalog, start, {queue: end[queue] for queue in start}, epochs))


class StreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a streaming query. Offsets are computed in one instance; `read` runs in the tasks, from a TaskPartition.

    _start   first offset of the query; None: not computed yet
    _target  ends of the queues when an AvailableNow run began; None: the run has no end
    _late    True: queues did not answer when that run began, and its first batch is not planned yet
    _known   catalog of the query; None: not created yet
    """

    def __init__(self, options: Options, schema: pa.Schema) -> None:
        super().__init__(options, schema)
        self._start: offsets.Document | None = None
        self._target: dict[QueueRoute, Edges] | None = None
        self._late = False
        self._known: Catalog | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_start": None, "_target": None, "_late": False, "_known": None}

    def initialOffset(self) -> offsets.Document:  # noqa: N802
        """Where the query starts, from its options. Computed once: Spark calls this twice for the first batch."""
        if self._start is None:
            edges = self._catalog().whole()
            self._start = offsets.initial(self._catalog().starting(edges), {queue: now.epoch for queue, now in edges.items()})
        return self._start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of option maxOffsetsPerTrigger."""
        return ReadMaxRows(self._options.trigger_rows) if self._options.trigger_rows else ReadAllAvailable()

    def latestOffset(self, start: offsets.Document, limit: ReadLimit) -> offsets.Document:  # noqa: N802
        """The end of the next batch, see `advance`. The first one is planned even when it is empty, to pin the start.

        Raises MissingError, DataLossError.
        """
        begin = offsets.read(start)
        catalog = self._catalog()
        epochs = offsets.epochs_of(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else 0

        def poll() -> Step:
            edges = catalog.edges(begin)
            if self._target is not None and self._late:
                self._target |= {queue: now for queue, now in edges.items() if queue in begin and queue not in self._target}
            step = advance(begin, epochs, edges, self._target, rows)
            catalog.lose(step.losses)
            return step

        step = catalog.until(poll)
        self._late = False
        catalog.hold(begin | step.fresh)
        if offsets.is_initial(start):
            return offsets.end_of_batch(step.end, step.epochs, begin | step.fresh)
        return start if step.end == begin and not step.fresh else offsets.end_of_batch(step.end, step.epochs, step.fresh)

    def reportLatestOffset(self) -> offsets.Document:  # noqa: N802
        """The end of each queue, for the progress of the query: the lag is this minus the end of the batch."""
        edges, _ = self._catalog().present()
        return offsets.document(
            {queue: now.after for queue, now in edges.items()}, {queue: now.epoch for queue, now in edges.items()}
        )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the end of each queue: this run reads no further. Queues that appear later are read by the next run.

        Queues of the query that do not answer now are noted when the first batch is planned.
        """
        self._target, self._late = self._catalog().present()

    def partitions(self, start: offsets.Document, end: offsets.Document) -> list[TaskPartition]:
        """The tasks of one batch. Raises MissingError, DataLossError, OffsetBackwardError."""
        begin = offsets.start_of(start, end)
        stop = offsets.read(end)
        catalog = self._catalog()
        unknown = [queue for queue in stop if queue not in begin]
        for queue in stop:
            if begin.get(queue, 0) > stop[queue]:
                if self._options.fail_on_data_loss or end.get("v") != 1:
                    raise OffsetBackwardError(queue, begin[queue], stop[queue])
                unknown.append(queue)
        if unknown:
            # Version 1 of the offsets does not have the starts of new queues: they began at their first offset.
            edges = catalog.edges(unknown)
            begin |= {queue: min(edges[queue].first if queue in edges else 0, stop[queue]) for queue in unknown}
        catalog.hold(begin)
        return self._plan(catalog, begin, stop, offsets.epochs_of(end))

    def stop(self) -> None:
        """Does nothing: connections belong to the process, not to the query."""

    def _catalog(self) -> Catalog:
        if self._known is None:
            self._known = Catalog(self._options)
        return self._known
