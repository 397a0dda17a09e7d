"""The end of the next micro-batch, computed from where the query is and from what the queues have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.client.answer import Edges, Epoch, QueueRoute, is_remade
from gateway.connectors.spark.failure import DataLossError, OffsetAheadError, OffsetExpiredError, TopicRemadeError
from gateway.connectors.spark.offset import Epochs, Position
from gateway.connectors.spark.plan import limit_rows


class Step(NamedTuple):
    """The next micro-batch.

    epochs   the epochs that `end` belongs to
    fresh    starts of queues that are new, and of queues that lost messages
    losses   what was lost before these starts: errors unless failOnDataLoss=false
    """

    end: Position
    epochs: Epochs
    fresh: Position
    losses: list[DataLossError]


def advance(
    begin: Mapping[QueueRoute, int],
    epochs: Mapping[QueueRoute, Epoch],
    edges: Mapping[QueueRoute, Edges],
    target: Mapping[QueueRoute, Edges] | None,
    rows: int,
) -> Step:
    """The micro-batch from `begin`, of `epochs`, with at most `rows` rows (0: no limit).

    target   ends of the queues when an AvailableNow run began, upper bounds of the run; None: no such run

    Queues that are not in `edges` keep their position. A new queue starts at its first offset, at once, so that its start
    is in the checkpoint even while it is empty. A topic that was created again starts at the first offset of all its queues
    once one of them has messages; so do queues that end before their position, and queues whose next messages have expired.
    """
    remade = {queue[:2] for queue, now in edges.items() if queue in begin and is_remade(epochs.get(queue), now.epoch)}
    losses: list[DataLossError] = []
    origin: Position = {}
    for queue, now in edges.items():
        origin[queue] = _origin(queue, begin.get(queue), now, queue[:2] in remade, losses)
    latest = edges if target is None else _bounded(edges, target)
    lags = {queue: latest[queue].after - origin[queue] for queue in origin if queue in latest}
    admitted = limit_rows(lags, rows) if rows else lags
    waiting = remade - {queue[:2] for queue, lag in lags.items() if lag > 0}
    end = {queue: offset for queue, offset in begin.items() if queue[:2] not in remade or queue[:2] in waiting}
    known = {queue: epoch for queue, epoch in epochs.items() if queue in end}
    fresh: Position = {}
    for queue, offset in origin.items():
        if queue[:2] in waiting or queue not in latest:
            continue
        more = max(admitted.get(queue, 0), 0)
        if more or queue not in end:
            end[queue] = offset + more
            if begin.get(queue) != offset or queue[:2] in remade:
                fresh[queue] = offset
        known[queue] = edges[queue].epoch
    return Step(end, known, fresh, losses)


def _origin(queue: QueueRoute, at: int | None, now: Edges, remade: bool, losses: list[DataLossError]) -> int:
    """Where the batch starts in one queue that the query has read up to `at`."""
    if at is None:
        return now.first
    if remade:
        losses.append(TopicRemadeError(queue, at))
    elif at > now.after:
        losses.append(OffsetAheadError(queue, at, now.after))
    elif at < now.first:
        losses.append(OffsetExpiredError(queue, at, now.first))
    else:
        return at
    return now.first


def _bounded(edges: Mapping[QueueRoute, Edges], target: Mapping[QueueRoute, Edges]) -> dict[QueueRoute, Edges]:
    """The ends of an AvailableNow run: those at its beginning, or now when that is less. Later queues are left out."""
    return {
        queue: now._replace(after=min(now.after, target[queue].after))
        for queue, now in edges.items()
        if queue in target and not is_remade(target[queue].epoch, now.epoch)
    }
