"""Groups and the topics that they read: those that have received here, and those that brokers name."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

PAIRS_MAX: Final = 10_000
"""Pairs of a group and a topic whose lag is asked for."""
NAMED_AT_ONCE: Final = 50
"""Pairs that have not received here, and are asked for in one walk."""

Pair = tuple[str, str]
"""(group, topic)."""
log = logging.getLogger("headgate.rocketmq")


class LastLag(NamedTuple):
    """The last reported lag of a pair of group and topic.

    messages   messages that wait; -1: no broker has reported it
    oldest_ms  store time of the oldest of them, epoch ms; 0: unknown
    read_ns    time of the report, monotonic; 0: never
    """

    messages: int
    oldest_ms: int
    read_ns: int


UNREAD: Final = LastLag(0, 0, 0)


@final
class GroupTopics:
    """At most PAIRS_MAX pairs. Those that have received here come first: they are asked for in every walk, the others in turn.

    _here     the last that began to receive here
    _named    pairs that brokers have named, and the lag of each
    _readers  topic -> groups that brokers have named
    _holders  topic -> the brokers that have its queues
    """

    def __init__(self) -> None:
        self._here: dict[Pair, None] = {}
        self._named: dict[Pair, LastLag] = {}
        self._readers: dict[str, frozenset[str]] = {}
        self._holders: dict[str, tuple[str, ...]] = {}
        self._full = False

    def add(self, group: str, topic: str) -> None:
        """Add a group that starts to receive from a topic here."""
        self._here.pop((group, topic), None)
        self._here[group, topic] = None
        if len(self._here) > PAIRS_MAX:
            del self._here[next(iter(self._here))]

    def name(self, topic: str, holders: Sequence[str], groups: Collection[str]) -> None:
        """Set the brokers that have queues of a topic, and all groups that read it by their report."""
        self._holders[topic] = tuple(holders)
        for group in self._readers.get(topic, frozenset()) - frozenset(groups):
            self._named.pop((group, topic), None)
        for group in groups:
            if (group, topic) in self._named:
                continue
            if len(self._here) + len(self._named) < PAIRS_MAX:
                self._named[group, topic] = UNREAD
            elif not self._full:
                self._full = True
                log.warning("more than %d groups read topics: the lag of others is not told", PAIRS_MAX)
        self._readers[topic] = frozenset(groups)

    def readers(self, topic: str) -> frozenset[str]:
        """The groups that read a topic by the last report of the brokers."""
        return self._readers.get(topic, frozenset())

    def keep(self, topics: Collection[str]) -> None:
        """Drop the topics that are not in the list of all topics."""
        for topic in [each for each in self._holders if each not in topics]:
            self.name(topic, (), ())
            del self._holders[topic], self._readers[topic]

    def holders(self, topic: str) -> Collection[str]:
        """The brokers that have queues of a topic; empty when no search has found the topic yet."""
        return self._holders.get(topic, ())

    def next_walk(self) -> Sequence[Pair]:
        """The pairs of the next walk: all that have received here, and of the others those with the oldest report."""
        others = [pair for pair in self._named if pair not in self._here]
        others.sort(key=lambda pair: self._named[pair].read_ns)
        return [*self._here, *others[:NAMED_AT_ONCE]]

    def read(self, found: Mapping[Pair, Sequence[int]], walked: Iterable[Pair], now_ns: int) -> None:
        """Store the result of a walk over `walked`: (messages, store time of the oldest) of pairs that a broker reported."""
        for pair in walked:
            if pair in self._named:
                messages, oldest_ms = found.get(pair, (-1, 0))
                self._named[pair] = LastLag(messages, oldest_ms, now_ns)

    def earlier(self, walked: Collection[Pair]) -> Mapping[Pair, LastLag]:
        """The pairs with an earlier report that are not in `walked`."""
        return {
            pair: last
            for pair, last in self._named.items()
            if last.read_ns and last.messages >= 0 and pair not in walked and pair not in self._here
        }
