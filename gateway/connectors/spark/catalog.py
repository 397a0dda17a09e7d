"""The queues of a query and their bounds, from the cluster. The list of queues is cached for a second."""

from __future__ import annotations

import logging
import re
import time
from difflib import get_close_matches
from typing import Final

from domain.address import is_derived_topic, is_system_topic
from gateway.client.answer import QueueRoute, UnknownTopicError
from gateway.connectors.spark.failure import NoSuchTopicError, OffsetAheadError, OffsetExpiredError
from gateway.connectors.spark.offset import Position, resolve
from gateway.connectors.spark.option import EARLIEST, LATEST, Options
from gateway.connectors.spark.plan import Range
from gateway.connectors.spark.scan import client_of

QUEUES_CACHED_S: Final = 1.0
"""How long the list of queues is cached, in seconds. Bounds are not cached."""

_log = logging.getLogger(__name__)


class Catalog:
    """The queues of one query."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = client_of(options)
        self._queues: list[QueueRoute] = []
        self._asked_s = -QUEUES_CACHED_S

    def bounds(self) -> dict[QueueRoute, tuple[int, int]]:
        """(first offset, offset of the next message) of every queue of the query. Raises NoSuchTopicError."""
        now = time.monotonic()
        if now - self._asked_s >= QUEUES_CACHED_S:
            self._queues = [queue for topic in self._topics() for queue in self._queues_of(topic)]
            self._asked_s = now
        return self._client.bounds(self._queues)

    def starting(self) -> Position:
        """Where the query starts, from its options. Raises OptionError, NoSuchTopicError."""
        bounds = self.bounds()
        if self._options.starting_ms >= 0:
            return self._client.search(list(bounds), self._options.starting_ms)
        return _edge("startingOffsets", self._options.starting, bounds)

    def ending(self) -> Position:
        """Where a batch query ends, from its options. Raises OptionError, NoSuchTopicError."""
        bounds = self.bounds()
        if self._options.ending_ms >= 0:
            return self._client.search(list(bounds), self._options.ending_ms)
        return _edge("endingOffsets", self._options.ending, bounds)

    def available(self, ranges: list[Range]) -> list[Range]:
        """The parts of the ranges that are stored.

        Missing offsets raise OffsetExpiredError or OffsetAheadError; without failOnDataLoss they are left out and logged.
        """
        wanted = [one for one in ranges if one.start < one.end]
        bounds = self._client.bounds([one.queue for one in wanted])
        out: list[Range] = []
        for queue, start, end in wanted:
            first, after = bounds[queue]
            if self._options.fail_on_data_loss:
                if start < first:
                    raise OffsetExpiredError(queue, start, first)
                if end > after:
                    raise OffsetAheadError(queue, end, after)
            kept = Range(queue, min(max(start, first), end), max(min(end, after), start))
            if kept != (queue, start, end):
                _log.warning("lost: of %s offsets %d to %d only %d to %d are there", queue, start, end, kept.start, kept.end)
            if kept.start < kept.end:
                out.append(kept)
        return out

    def _topics(self) -> list[str]:
        if not self._options.pattern:
            return list(self._options.topics)
        pattern = re.compile(self._options.pattern)
        return [
            name
            for name in self._client.topics()
            if pattern.fullmatch(name) and not is_system_topic(name) and not is_derived_topic(name)
        ]

    def _queues_of(self, topic: str) -> list[QueueRoute]:
        try:
            return self._client.route(topic).queues
        except UnknownTopicError as error:
            if self._options.pattern:
                return []
            near = get_close_matches(topic, self._client.topics(), n=2)
            raise NoSuchTopicError(topic, self._options.nameserver, near) from error


def _edge(option: str, text: str, bounds: dict[QueueRoute, tuple[int, int]]) -> Position:
    if text == EARLIEST:
        return {queue: first for queue, (first, _) in bounds.items()}
    if text == LATEST:
        return {queue: after for queue, (_, after) in bounds.items()}
    return resolve(option, text, bounds)
