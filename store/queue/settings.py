"""The configuration of topics, shared by all topics that differ in nothing but their names and times of creation."""

from __future__ import annotations

from typing import final

from domain.topic import Topic


@final
class TopicSettings:
    """A configuration. Its state value is `head`, or `head`, the time of creation in epoch ms as digits, `tail`.

    topic   the configuration; its name is "" and its `created_ms` is 0
    head    what comes before the digits
    tail    what comes behind them; None when the value does not contain a time of creation
    """

    __slots__ = ("head", "tail", "topic")

    def __init__(self, topic: Topic, head: bytes, tail: bytes | None) -> None:
        self.topic = topic
        self.head = head
        self.tail = tail

    def value(self, created_ms: int) -> bytes:
        """The state value of a topic with this configuration."""
        return self.head if self.tail is None else b"%b%d%b" % (self.head, created_ms, self.tail)
