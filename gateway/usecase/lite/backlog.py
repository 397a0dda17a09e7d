"""The backlog of a group in lite topics: in one, or in all lite topics of a parent topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final

from domain import lite
from domain.admin.lite import LiteGroup, LiteLag
from domain.errors import Failure
from domain.lite import LiteQueues
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, MessageLog

SLICE: Final = 1_024
"""Lite topics that one turn of the loop looks at."""
TOP_MAX: Final = 1_000
"""Lite topics that each of the two lists of an answer names at most."""


class LiteBacklog:
    """Fills in the backlog of a LiteGroup answer. The store answers before its calls return: lite queues are on this node."""

    def __init__(self, log: MessageLog, positions: GroupPositions, queues: LiteQueues, clock: Clock) -> None:
        self._log = log
        self._positions = positions
        self._queues = queues
        self._clock = clock

    def one(self, answer: LiteGroup) -> None:
        """Fill in the backlog and the position in the lite topic that the answer names, where the group has a position."""
        end, position = self._place(answer.group, answer.topic, answer.lite)
        if position >= 0:
            answer.count = end - position
            answer.oldest_ms = self._queues.time_at(answer.topic, answer.lite, position)
            answer.position = (end, position, self._queues.time_at(answer.topic, answer.lite, position - 1))

    def all(self, answer: LiteGroup, top: int, done: Callable[[LiteGroup], None]) -> None:
        """Sum up all lite topics in which the group has a position, then call `done`.

        The answer names the `top` (at most TOP_MAX) lite topics with the largest backlog, and those with the oldest messages.
        """
        answer.count = 0
        self._slice(answer, self._queues.names(answer.topic), min(max(top, 0), TOP_MAX), done)

    def _slice(self, answer: LiteGroup, names: Iterator[str], top: int, done: Callable[[LiteGroup], None]) -> None:
        some = list(islice(names, SLICE))
        found: list[LiteLag] = []
        for name in some:
            end, position = self._place(answer.group, answer.topic, name)
            if 0 <= position < end:
                found.append(LiteLag(name, end - position, self._queues.time_at(answer.topic, name, position)))
        if found:
            answer.count += sum(each.count for each in found)
            oldest_ms = min(each.oldest_ms for each in found)
            answer.oldest_ms = oldest_ms if answer.oldest_ms < 0 else min(answer.oldest_ms, oldest_ms)
            answer.by_count = nsmallest(top, answer.by_count + found, key=lambda each: (-each.count, each.lite))
            answer.by_age = nsmallest(top, answer.by_age + found, key=lambda each: (each.oldest_ms, each.lite))
        if len(some) < SLICE:
            done(answer)
        else:
            self._clock.call_at(self._clock.monotonic_ns(), lambda: self._slice(answer, names, top, done))

    def _place(self, group: str, topic: str, name: str) -> tuple[int, int]:
        """(next offset of a lite topic's queue, position of `group` there); position -1 when it has none."""
        queue = lite.queue_name(topic, name)
        bounds: list[tuple[int, int] | Failure] = []
        position: list[int | Failure] = []
        self._log.bounds(queue, 0, bounds.append)
        self._positions.offset(group, queue, 0, position.append)
        if not bounds or isinstance(bounds[0], Failure) or not position or isinstance(position[0], Failure):
            return 0, -1
        return bounds[0][1], max(position[0], bounds[0][0])
