"""Questions about what is stored, beside the messages themselves, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class QueryEarliest(Command):
    """When the first message that a queue still has was stored -> Earliest. Refused TOPIC_NOT_FOUND, QUEUE_ILLEGAL."""

    ticket: object
    topic: str
    queue_id: int


@dataclass(slots=True)
class Earliest(Event):
    """Epoch milliseconds, -1 for an empty queue."""

    ticket: object
    store_ms: int


@dataclass(slots=True)
class AwaitMessages(Command):
    """Hold until the group has something to receive from a topic, at most `wait_ms`, leasing nothing -> MessagesWait.

    `queue_id` -1: any queue. "Something" is a message that nobody holds on lease and, with `ordered`, that does not wait for
    another one of its message group. With an `attempt_id` also what a Receive of that attempt has been given. TOPIC_NOT_FOUND,
    QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int = -1
    wait_ms: int = 0
    ordered: bool = False
    attempt_id: str = ""


@dataclass(slots=True)
class MessagesWait(Event):
    """`there`: a Receive is worth while. `full`: too many wait already, this one was not held."""

    ticket: object
    there: bool
    full: bool = False


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
class QueryNodeCounters(Command):
    """The node's figures -> Figures."""

    ticket: object


@dataclass(slots=True)
class NodeCounters(Event):
    """`started_ms`: wall clock at start. `values`: what the store counts, by its own names."""

    ticket: object
    started_ms: int
    values: Mapping[str, float] = field(default_factory=dict)
