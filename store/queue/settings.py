"""The configuration of topics, shared by all topics that differ in nothing but their names and times of creation."""

from __future__ import annotations

from typing import Final, final

from domain.topic.topic import Topic

_CREATED: Final = b'"created_ms":'


def created_at(value: bytes) -> tuple[int, int]:
    """(begin, end) of the digits of the time of creation in a state value; (0, 0) when it contains none.

    Within a text the quotes have a backslash, and the values of attributes are texts: it is the field or nothing.
    """
    at = value.find(_CREATED)
    while at >= 0:
        begin = end = at + len(_CREATED)
        while end < len(value) and 48 <= value[end] <= 57:
            end += 1
        if begin < end < len(value) and value[end] in (44, 125) and at and value[at - 1] in (44, 123):
            return begin, end
        at = value.find(_CREATED, end)
    return 0, 0


@final
class TopicSettings:
    """A configuration. Its state value is `head`, or `head`, the time of creation in epoch ms as digits, `tail`.

    topic   the configuration; its name is "" and its `created_ms` is 0
    head    the bytes before the digits
    tail    the bytes behind them; None when the value does not contain a time of creation
    """

    __slots__ = ("head", "tail", "topic")

    def __init__(self, topic: Topic, head: bytes, tail: bytes | None) -> None:
        self.topic = topic
        self.head = head
        self.tail = tail

    def value(self, created_ms: int) -> bytes:
        """The state value of a topic with this configuration."""
        return self.head if self.tail is None else b"%b%d%b" % (self.head, created_ms, self.tail)
