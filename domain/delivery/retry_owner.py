"""Owner of a message in a retry topic, the group that it is for. The name is ambiguous: `%RETRY%a_b_c` has the messages that
consumers of group `a_b_c` return, and in version 1 those that POP moves there from topic `c` for group `a_b`, and from `b_c`
for group `a`. The record determines the owner:

    RETRY_TOPIC is the end of the name, and no consumer has returned the message   the group in front of it
    else                                                                           the group of the whole name

A name of version 2 (`%RETRY%a_b+c`) belongs to one pair, and its records are not examined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.address import RETRY_PREFIX
from domain.filter.filter import RETRY, Filter
from domain.message import property as properties
from domain.message.record import Record
from domain.topic.topic import Group

_GIVEN_BACK: Final = (properties.start_of(properties.ORIGIN_MESSAGE_ID), properties.start_of(properties.RECONSUME_TIME))
"""A broker marks a message that is given back with the first, a client that sends it to the retry topic with the second."""


@final
class RetryFilter:
    """The `domain.filter.filter.Filter` that accepts the messages of a retry topic that are for one group.

    name    the name of the topic without its prefix
    reader  the group
    groups  the groups that exist and whose names, and `_`, begin `name`: without one of them its messages are nobody else's
    rest    True: the reader gets what no record says the owner of, since only it can be meant
    inner   another filter that the messages have to match, None: no other
    """

    __slots__ = ("_groups", "_inner", "_name", "_reader", "_rest")

    def __init__(self, name: str, reader: str, groups: frozenset[str], rest: bool = False, inner: Filter | None = None) -> None:
        self._name = name
        self._reader = reader
        self._groups = groups
        self._rest = rest
        self._inner = inner

    @property
    def expression(self) -> tuple[str, str]:
        """RETRY; name, reader, `rest`, groups and the expression of the inner filter, with U+0000 between them."""
        kind, text = ("", "") if self._inner is None else self._inner.expression
        rest = "1" if self._rest else ""
        return RETRY, "\x00".join((self._name, self._reader, rest, "\x01".join(sorted(self._groups)), kind, text))

    @property
    def hashes(self) -> frozenset[int] | None:
        """Those of the inner filter."""
        return None if self._inner is None else self._inner.hashes

    @property
    def cost(self) -> int:
        """Filter.cost: one evaluation, and those of the inner filter."""
        return 1 if self._inner is None else 1 + self._inner.cost

    def matches(self, stored_properties: bytes) -> bool:
        """True when a message with these properties is for the reader, and matches the inner filter."""
        owner = self._owner(stored_properties)
        if owner != self._reader and not (self._rest and owner == self._name):
            return False
        return self._inner is None or self._inner.matches(stored_properties)

    def _owner(self, stored: bytes) -> str:
        """The name of the group that a message with these properties is for."""
        origin = properties.text(stored, properties.RETRY_TOPIC)
        if origin and self._name.endswith(f"_{origin}") and not any(properties.find(stored, start) for start in _GIVEN_BACK):
            group = self._name[: -len(origin) - 1]
            if group in self._groups or group == self._reader:
                return group
        return self._name


def retry_filter(
    topic: str, group: str, find: Callable[[str], Group | None], rest: bool = False, inner: Filter | None = None
) -> Filter | None:
    """What `group` ("": a reader without one) may have of a topic, besides what `inner` asks; `inner` itself: all.

    In a retry topic whose name begins with that of the group and `_`, its own messages; in another one those of the group of
    the whole name, whoever reads them. `find`: the group of a name (Metadata.group).
    """
    if not topic.startswith(RETRY_PREFIX) or "_" not in topic or "+" in topic:
        return inner
    name = topic[len(RETRY_PREFIX) :]
    beginnings = [name[:at] for at, letter in enumerate(name) if letter == "_" and 0 < at < len(name) - 1]
    groups = frozenset([each for each in beginnings if find(each) is not None])
    reader = group if group in beginnings else name
    if reader == name and not groups:
        return inner
    return RetryFilter(name, reader, groups, rest, inner)


def origin_topic(topic: str, stored: bytes) -> str:
    """The topic that a message in a retry topic was sent to; `topic` itself for any other topic, and when it is unknown."""
    if not topic.startswith(RETRY_PREFIX):
        return topic
    return properties.text(stored, properties.RETRY_TOPIC) or topic.partition("+")[2] or topic


def kept(records: list[bytes], topic: str, group: str, find: Callable[[str], Group | None]) -> list[bytes]:
    """Those of `records`, read from `topic`, that `group` may have: `retry_filter`."""
    wanted = retry_filter(topic, group, find)
    return records if wanted is None else [data for data in records if wanted.matches(Record(data).properties)]


def parse(text: str, compiled: Callable[[str, str], Filter | None]) -> RetryFilter:
    """The second part of `RetryFilter.expression` -> the filter. `compiled` makes the inner one. Raises ValueError."""
    name, reader, rest, groups, kind, inner = text.split("\x00", 5)
    known = frozenset(groups.split("\x01")) if groups else frozenset[str]()
    return RetryFilter(name, reader, known, rest == "1", compiled(kind, inner) if kind else None)
