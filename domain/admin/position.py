"""Positions of consumer groups: how far groups are, and how a tool sets their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class QueryProgress(Command):
    """How far a group is on a topic, "" all topics -> Progress. Refused GROUP_NOT_FOUND, TOPIC_NOT_FOUND.

    At most 65,536 queues are looked at; of several topics those on which the group has no position are left out.
    `times`: with the times of the messages before the positions.
    """

    ticket: object
    group: str
    topic: str = ""
    times: bool = False


@dataclass(slots=True)
class Progress(Event):
    """(topic, queue id, next offset of the queue, the group's position) a queue on which the group has one.

    per_second   messages a second that the group was given in the last minute
    times        (topic, queue id) -> store time of the last message before the position, where it is still there
    given        (topic, queue id) -> offset up to which the group has been given messages, where that is beyond its position
    """

    ticket: object
    queues: list[tuple[str, int, int, int]]
    per_second: float = 0.0
    times: Mapping[tuple[str, int], int] = field(default_factory=dict)
    given: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class QueryBacklog(Command):
    """How far every group is, 65,536 queues of them at most; `ordered`: on ordered topics alone -> Backlog."""

    ticket: object
    ordered: bool = False


@dataclass(slots=True)
class Backlog(Event):
    """Group -> (topic, queue id, next offset of the queue, the group's position); groups without a position are left out.

    `times`: group -> (topic, queue id) -> store time of the last message before the position, where it is still there.
    `given`: group -> (topic, queue id) -> offset up to which the group has been given messages, where beyond its position.
    """

    ticket: object
    groups: dict[str, list[tuple[str, int, int, int]]]
    times: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    given: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)


@dataclass(slots=True)
class QueryTimeSpans(Command):
    """The times of a topic's messages as a group sees them -> TimeSpans. TOPIC_NOT_FOUND, GROUP_NOT_FOUND."""

    ticket: object
    topic: str
    group: str


@dataclass(slots=True)
class QueueTimeSpan:
    """One queue: store times, epoch milliseconds, -1 for none.

    first_ms, last_ms   of the first and the last message that it has
    consumed_ms         of the last one before the group's position
    waiting_ms          of the first one at the group's position
    """

    queue_id: int
    first_ms: int = -1
    last_ms: int = -1
    consumed_ms: int = -1
    waiting_ms: int = -1


@dataclass(slots=True)
class TimeSpans(Event):
    """By queue id."""

    ticket: object
    spans: list[QueueTimeSpan]


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
