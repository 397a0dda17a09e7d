"""Cache of the parts of send headers that all messages of a producer to a queue have in common."""

from __future__ import annotations

from typing import Final, final

HEADER_CACHE_MAX: Final = 4_096
"""Prefixes, and suffixes, in a HeaderCache."""


@final
class HeaderPrefix:
    """The decoded prefix of a header: the ext fields that a producer repeats for one queue.

    queue_id  queue id; -1: the broker chooses the queue
    sys_flag  sysFlag as it is stored
    queues    defaultTopicQueueNums: number of queues of a topic that this message creates
    """

    __slots__ = ("queue_id", "queues", "sys_flag", "topic")

    def __init__(self, topic: str, queue_id: int, sys_flag: int, queues: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.sys_flag = sys_flag
        self.queues = queues


@final
class HeaderCache:
    """Prefixes and suffixes of headers that were decoded before. Each is emptied when it has HEADER_CACHE_MAX entries.

    prefixes  encoded prefix -> decoded prefix
    """

    def __init__(self) -> None:
        self.prefixes: dict[bytes, HeaderPrefix] = {}
        self.suffixes: set[bytes] = set()

    def add(self, prefix: bytes, made: HeaderPrefix, suffix: bytes) -> None:
        """Store the prefix and the suffix of a decoded header."""
        if len(self.prefixes) >= HEADER_CACHE_MAX:
            self.prefixes.clear()
        if len(self.suffixes) >= HEADER_CACHE_MAX:
            self.suffixes.clear()
        self.prefixes[prefix] = made
        self.suffixes.add(suffix)
