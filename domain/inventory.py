"""What a node holds at this moment, all of a kind at once: questions of tools, and their answers."""

from __future__ import annotations

from dataclasses import dataclass

from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class CountWaitingMessages(Command):
    """How many receives of a group wait for messages of one queue, -1 those that wait for any -> Waiting.

    TOPIC_NOT_FOUND, QUEUE_ILLEGAL, NOT_ALLOWED.
    """

    ticket: object
    group: str
    topic: str
    queue_id: int


@dataclass(slots=True)
class WaitingCount(Event):
    """At this moment."""

    ticket: object
    count: int


@dataclass(slots=True)
class SetRequestMode(Command):
    """How members of `group` consume `topic`: PULL or POP (RocketMQ code 401) -> Done.

    Refused TOPIC_NOT_FOUND, GROUP_NOT_FOUND, and NOT_ALLOWED for retry topics.
    """

    ticket: object
    group: str
    topic: str
    mode: str
    pop_share_queues: int = 0


@dataclass(slots=True)
class QueryRequestMode(Command):
    """The mode set by SetRequestMode, PULL when none -> RequestMode."""

    ticket: object
    group: str
    topic: str


@dataclass(slots=True)
class ListModes(Command):
    """Which groups consume which topics by POP or by PULL, as far as somebody has said -> ModeList."""

    ticket: object


@dataclass(slots=True)
class ModeList(Event):
    """(topic, group, mode, how many other members' queues each has besides)."""

    ticket: object
    modes: list[tuple[str, str, str, int]]
