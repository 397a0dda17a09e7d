"""Setting positions of a group on purpose: to a time, to an offset, or as another group has them."""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class ResetPositions(Command):
    """Set positions of a group on a topic, durably, and see to it that its members go on from there -> PositionsReset.

    timestamp_ms   each queue's first message stored at or after it; -1: the end
    force          False: positions only move back
    queue_id       -1: all queues; else this one
    offset         of that one queue, instead of a time; -1: none

    TOPIC_NOT_FOUND, GROUP_NOT_FOUND, QUEUE_ILLEGAL, ARGUMENT_ILLEGAL for an offset outside of the queue.
    """

    ticket: object
    topic: str
    group: str
    timestamp_ms: int
    force: bool = True
    queue_id: int = -1
    offset: int = -1


@dataclass(slots=True)
class PositionsReset(Event):
    """(queue id, offset) as they stand now."""

    ticket: object
    offsets: list[tuple[int, int]]


@dataclass(slots=True)
class ClonePositions(Command):
    """Give `target` the positions that `source` has, on one topic or with "" on all -> Done. GROUP_NOT_FOUND, TOPIC_NOT_FOUND.

    Members of `target` that are there now are told of it as by ResetPositions.
    """

    ticket: object
    source: str
    target: str
    topic: str = ""
