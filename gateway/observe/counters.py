"""Counters of each protocol: plain integers that the pumps add to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.client.mqtt_session import Deliveries
from domain.errors import ErrorCode
from domain.event import Event, Pulled, Received, Refused, TopicFollowed, WatchedMessages
from domain.histogram import Histogram
from domain.message.record import Record
from domain.refusal import ReasonWords, is_refusal

SAMPLED: Final = 16
"""Deliveries of which the age of one is counted."""


@final
class MessageAges:
    """Ages of messages at their delivery, since they were stored: of the first message of one delivery in SAMPLED."""

    __slots__ = ("_skipped", "_wall_ms", "histogram")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._skipped = 0
        self.histogram = Histogram()

    def due(self) -> bool:
        """True for one delivery in SAMPLED: messages to many are delivered one by one. Then `add` is called."""
        self._skipped += 1
        if self._skipped < SAMPLED:
            return False
        self._skipped = 0
        return True

    def add(self, store_ms: int) -> None:
        """Count the age of a message that was stored at `store_ms`."""
        self.histogram.add(max(0, self._wall_ms() - store_ms) / 1000)


def _no_time() -> int:
    return 0


@final
class ProtocolCounters:
    """Counts of one protocol since the start.

    Counts are of messages, payload-carrying bytes on the socket, connections, and refusals by word: the codes of `Refused`, the
    words of `Disconnected` that are no ordinary end, and the runtime's own. `words` knows which reason a word means.
    `dropped` is a datagram endpoint's own count of what came to nothing.
    """

    __slots__ = (
        "ages",
        "bytes_in",
        "bytes_out",
        "connections_open",
        "connections_opened",
        "disconnects",
        "dropped",
        "messages_in",
        "messages_out",
        "protocol",
        "refusals",
        "words",
    )

    def __init__(self, protocol: str, words: ReasonWords, ages: MessageAges) -> None:
        self.ages = ages
        self.protocol = protocol
        self.words = words
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.messages_out = 0
        self.connections_open = 0
        self.connections_opened = 0
        self.refusals: dict[str, int] = {}
        self.disconnects: dict[str, int] = {}
        self.dropped: Mapping[str, int] = {}

    def opened(self) -> None:
        """Count one new connection."""
        self.connections_open += 1
        self.connections_opened += 1

    def answered(self, event: Event) -> None:
        """Count the messages or the refusal of one event."""
        if isinstance(event, Deliveries):
            self.messages_out += len(event.items)
            if event.items and self.ages.due():
                self.ages.add(event.items[0].routed.record.store_ms)
        elif isinstance(event, Pulled | WatchedMessages | TopicFollowed):
            self.messages_out += len(event.records)
            if event.records and self.ages.due():
                self.ages.add(Record(event.records[0]).store_ms)
        elif isinstance(event, Received):
            self.messages_out += len(event.messages)
            if event.messages and self.ages.due():
                self.ages.add(Record(event.messages[0].record).store_ms)
        elif isinstance(event, Refused):
            self.refused(event.failure.code.value)

    def refused(self, reason: str) -> None:
        """Count one refused command."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def disconnected(self, reason: str, counted: bool = False) -> None:
        """Count one ended connection by its reason, among the refusals too when it is one. `counted`: that is done."""
        self.disconnects[reason] = self.disconnects.get(reason, 0) + 1
        if not counted:
            found = self.words.reason_of(reason)
            if found is None or is_refusal(found):
                self.refused(reason)

    def by_reason(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Sum the adapters' words by reason. A word without a reason is a bug in the gateway, and counts as `internal`."""
        found: dict[str, int] = {}
        for word, count in counts.items():
            name = (self.words.reason_of(word) or ErrorCode.INTERNAL).value
            found[name] = found.get(name, 0) + count
        return found

    def all_refusals(self) -> dict[str, int]:
        """Refused commands and connections, and what a datagram port refused itself, by the names of the closed list."""
        dropped = {word: count for word, count in self.dropped.items() if self.words.refuses(word)}
        found = self.by_reason(self.refusals)
        for name, count in self.by_reason(dropped).items():
            found[name] = found.get(name, 0) + count
        return found

    def all_disconnects(self) -> dict[str, int]:
        """Ended connections by the names of the closed list."""
        return self.by_reason(self.disconnects)


@final
class CounterRegistry:
    """The counters of all protocols of a node, made on first use."""

    __slots__ = ("_protocols", "_words", "ages")

    def __init__(self, words: ReasonWords | None = None, wall_ms: Callable[[], int] = _no_time) -> None:
        """`words`: what the node's protocols say for reasons; `wall_ms`: epoch milliseconds, for the ages of messages."""
        self._words = words or ReasonWords()
        self.ages = MessageAges(wall_ms)
        self._protocols: dict[str, ProtocolCounters] = {}

    def of(self, protocol: str) -> ProtocolCounters:
        """The counters of `protocol`, made at the first use."""
        counters = self._protocols.get(protocol)
        if counters is None:
            counters = self._protocols[protocol] = ProtocolCounters(protocol, self._words, self.ages)
        return counters

    def refused(self, protocol: str, word: str) -> None:
        """An adapter has refused something itself."""
        self.of(protocol).refused(word)

    def move_connection(self, before: ProtocolCounters, protocol: str) -> ProtocolCounters:
        """Count an open connection under another protocol, once it is recognised. Returns the counters of that protocol."""
        after = self.of(protocol)
        before.connections_open -= 1
        before.connections_opened -= 1
        after.connections_open += 1
        after.connections_opened += 1
        return after

    def all(self) -> list[ProtocolCounters]:
        """All counters, sorted by protocol."""
        return [self._protocols[name] for name in sorted(self._protocols)]
