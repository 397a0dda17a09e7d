"""Changes to topics as tools make them: of a part, on top of what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.command import Command
from domain.event import Event


@dataclass(frozen=True, slots=True)
class TopicChange:
    """The shape of a topic, and which attributes to set and to drop; other attributes stay as they are.

    The attributes `message.type` and `durability` are the topic's type and durability; the rest are kept as text.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int
    order: bool = False
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()


@dataclass(slots=True)
class ChangeTopic(Command):
    """Create or change a topic -> Done. Refused TOPIC_ILLEGAL, ARGUMENT_ILLEGAL."""

    ticket: object
    change: TopicChange


@dataclass(slots=True)
class SetReadable(Command):
    """Whether a group may read a topic (RocketMQ code 353); None leaves it as it is -> Readable.

    Refused GROUP_NOT_FOUND, TOPIC_NOT_FOUND where it is to be forbidden.
    """

    ticket: object
    group: str
    topic: str
    readable: bool | None = None


@dataclass(slots=True)
class Readable(Event):
    """As it is from now on."""

    ticket: object
    readable: bool
