"""Positions of consumer groups: how far groups are, and how a tool sets their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class QueryProgress(TicketedCommand):
    """Query the progress of a group -> Progress (RocketMQ code 208).

    topic   one topic; "": every topic on which the group has a position
    times   True: with the store times of the messages before the positions

    At most 65,536 queues are examined. Errors: GROUP_NOT_FOUND, TOPIC_NOT_FOUND.
    """

    group: str
    topic: str = ""
    times: bool = False


@dataclass(slots=True)
class Progress(TicketedEvent):
    """Progress of a group.

    queues       (topic, queue id, next offset of the queue, position of the group) a queue on which the group has a position
    per_second   messages given to the group a second, over the last minute
    times        (topic, queue id) -> store time of the last message before the position, epoch ms, while it is still there
    given        (topic, queue id) -> offset up to which messages were given to the group, where that is beyond its position
    """

    queues: list[tuple[str, int, int, int]]
    per_second: float = 0.0
    times: Mapping[tuple[str, int], int] = field(default_factory=dict)
    given: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class QueryBacklog(TicketedCommand):
    """Query the progress of all groups, on at most 65,536 queues -> Backlog (RocketMQ codes 43, 308 and 317).

    ordered   True: only on topics that are ordered
    """

    ordered: bool = False


@dataclass(slots=True)
class Backlog(TicketedEvent):
    """Progress of all groups. Groups without a position are left out.

    groups   group -> (topic, queue id, next offset of the queue, position of the group)
    times    group -> (topic, queue id) -> store time of the last message before the position, epoch ms, while it is still there
    given    group -> (topic, queue id) -> offset up to which messages were given to the group, where beyond its position
    """

    groups: dict[str, list[tuple[str, int, int, int]]]
    times: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    given: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)


@dataclass(slots=True)
class QueryTimeSpans(TicketedCommand):
    """Store times of a topic's messages around the positions of a group -> TimeSpans (RocketMQ code 303).

    Errors: TOPIC_NOT_FOUND, GROUP_NOT_FOUND.
    """

    topic: str
    group: str


@dataclass(slots=True)
class QueueTimeSpan:
    """Store times of one queue in epoch milliseconds, -1: there is no such message (RocketMQ's QueueTimeSpan).

    first_ms      of the first message that the queue still has
    last_ms       of its last message
    consumed_ms   of the last message before the position of the group
    waiting_ms    of the message at the position of the group
    """

    queue_id: int
    first_ms: int = -1
    last_ms: int = -1
    consumed_ms: int = -1
    waiting_ms: int = -1


@dataclass(slots=True)
class TimeSpans(TicketedEvent):
    """Spans by queue id."""

    spans: list[QueueTimeSpan]


@dataclass(slots=True)
class ResetPositions(TicketedCommand):
    """Set positions of a group on a topic durably; its members go on from there -> PositionsReset (RocketMQ code 222).

    timestamp_ms   each queue's first message stored at or after it, epoch milliseconds; -1: the end of the queue
    force          False: a position only moves back
    queue_id       one queue; -1: all queues
    offset         the position to set, only with a `queue_id`; -1: by `timestamp_ms`

    Errors: TOPIC_NOT_FOUND, GROUP_NOT_FOUND, QUEUE_ILLEGAL, ARGUMENT_ILLEGAL (the offset is outside the queue).
    """

    topic: str
    group: str
    timestamp_ms: int
    force: bool = True
    queue_id: int = -1
    offset: int = -1


@dataclass(slots=True)
class PositionsReset(TicketedEvent):
    """The positions after the command: (queue id, offset)."""

    offsets: list[tuple[int, int]]


@dataclass(slots=True)
class ClonePositions(TicketedCommand):
    """Set the positions of group `target` to those of group `source` -> Done (RocketMQ code 314).

    topic   one topic; "": all topics

    Members of `target` are notified, as by ResetPositions. Errors: GROUP_NOT_FOUND, TOPIC_NOT_FOUND.
    """

    source: str
    target: str
    topic: str = ""
