"""Topics and consumer groups as configuration."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from domain.retry import DEFAULT, RetryPolicy

PERM_WRITE: Final = 2
PERM_READ: Final = 4
PERM_READ_WRITE: Final = 6


class Durability(enum.Enum):
    """What a positive answer promises. Only `PAGE` and `FLUSHED` exist on a single node."""

    PAGE = "page"
    FLUSHED = "flushed"

    @property
    def survives(self) -> str:
        """In words for a person."""
        return "kill -9 of the server" if self is Durability.PAGE else "kill -9 and power loss"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    type            NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE or MIXED (RocketMQ's message.type)
    retention_ms    0: the store's default; retention_bytes 0: no bound of its own
    created_ms      wall clock; 0 for topics that the node makes at start
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = PERM_READ_WRITE
    type: str = "NORMAL"
    durability: Durability = Durability.FLUSHED
    retention_ms: int = 0
    retention_bytes: int = 0
    order: bool = False
    sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0


PRIORITY_FACTOR: Final = "priority.factor"
"""Attribute of a group: of a hundred receives from a PRIORITY topic, how many look at the highest first. 100 if absent."""


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group. `retry_max` redeliveries after the first delivery, then the dead-letter topic.

    notify         its members are told at once when others come and go; else they find out by themselves
    retry          how long a message that was not handled waits
    retry_queues   of its retry topic, when that is made; 0: what queue-level consumers send back is dropped
    """

    name: str
    orderly: bool = False
    consume_enable: bool = True
    consume_from_min: bool = True
    broadcast_enable: bool = True
    retry_max: int = 16
    retry_queues: int = 1
    attributes: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    retry: RetryPolicy = DEFAULT
    notify: bool = True
