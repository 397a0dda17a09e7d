"""Watch and Unwatch: which records a watch delivers, when, and which are dropped."""

from __future__ import annotations

from collections.abc import Callable

from domain.command import Unwatch, Watch
from domain.errors import ErrorCode
from domain.event import Event, Refused, WatchedMessages, WatchStarted
from domain.message import LOCAL_HOST, Message
from domain.ports import Timer
from domain.record import Record, encode
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume import watch
from gateway.usecase.consume.watch import Watches
from tests.connection_driver import StrictDriver


class Turns:
    """A clock that runs the calls of one loop turn on demand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def monotonic_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Recorder(StrictDriver):
    """A driver that records events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def answer(self, event: Event) -> None:
        self.events.append(event)


def record(topic: str, path: str = "", body: bytes = b"x", offset: int = 0) -> bytes:
    properties = f"originMqttTopic\x01{path}\x02".encode() if path else b""
    return encode(Message(topic, body, properties, queue_id=0), offset, offset * 100, 1, LOCAL_HOST)


def client() -> tuple[ClientConnection, list[Event]]:
    heard = Recorder()
    return ClientConnection("test", heard), heard.events


def test_a_turn_of_matching_records_is_one_event() -> None:
    clock = Turns()
    watches = Watches(clock)
    connection, events = client()
    watches.watch(connection, Watch(1, "t/+"))
    assert events == [WatchStarted(1)]
    first, second = record("t", "t/a", b"1"), record("t", "t/b", b"2")
    watches.arrived("t", 0, [first, record("t", "t/a/deep"), record("t")])
    watches.arrived("t", 3, [second])
    assert len(events) == 1
    clock.turn()
    assert events[1:] == [WatchedMessages(1, [first, second])]


def test_a_record_without_a_path_is_at_its_topic() -> None:
    clock = Turns()
    watches = Watches(clock)
    connection, events = client()
    for ticket, pattern in enumerate(("t", "t/#", "+", "#", "t/+")):
        watches.watch(connection, Watch(ticket, pattern))
    watches.arrived("t", 0, [record("t")])
    clock.turn()
    assert {event.ticket for event in events if isinstance(event, WatchedMessages)} == {0, 1, 2, 3}


def test_unwatch_and_disconnect_stop_what_has_not_been_delivered_yet() -> None:
    clock = Turns()
    watches = Watches(clock)
    staying, kept = client()
    leaving, lost = client()
    watches.watch(staying, Watch("a", "#"))
    watches.watch(staying, Watch("b", "#"))
    watches.watch(leaving, Watch("c", "#"))
    watches.arrived("t", 0, [record("t")])
    watches.unwatch(staying, Unwatch("a"))
    watches.unwatch(staying, Unwatch("never"))
    leaving.end()
    clock.turn()
    assert [event.ticket for event in kept if isinstance(event, WatchedMessages)] == ["b"]
    assert not [event for event in lost if isinstance(event, WatchedMessages)]
    assert watches.watching == 1


def test_a_second_watch_under_a_ticket_replaces_the_first() -> None:
    clock = Turns()
    watches = Watches(clock)
    connection, events = client()
    watches.watch(connection, Watch(1, "a"))
    watches.watch(connection, Watch(1, "b"))
    watches.arrived("a", 0, [record("a")])
    clock.turn()
    assert events == [WatchStarted(1), WatchStarted(1)]
    assert watches.watching == 1


def test_bad_filters_and_too_many_watches_are_refused() -> None:
    watches = Watches(Turns())
    connection, events = client()
    watches.watch(connection, Watch(0, "a/#/b"))
    for ticket in range(watch.WATCHES_PER_CONNECTION_MAX + 1):
        watches.watch(connection, Watch(ticket, "x"))
    refusals = [event.failure.code for event in events if isinstance(event, Refused)]
    assert refusals == [ErrorCode.FILTER_ILLEGAL, ErrorCode.QUOTA]


def test_a_flood_within_one_turn_costs_the_oldest_records() -> None:
    clock = Turns()
    watches = Watches(clock)
    connection, events = client()
    watches.watch(connection, Watch(1, "t"))
    watches.arrived("t", 0, [record("t", offset=n) for n in range(watch.PENDING_MAX + 3)])
    clock.turn()
    delivered = events[-1]
    assert isinstance(delivered, WatchedMessages)
    assert len(delivered.records) == watch.PENDING_MAX
    assert Record(delivered.records[0]).queue_offset == 3
    assert watches.dropped == 3


def test_only_a_connection_of_one_peer_has_a_bound_of_its_own() -> None:
    watches = Watches(Turns())
    heard = Recorder()
    alone, shared = ClientConnection("mqtt", heard), ClientConnection("coap", heard, shared=True)
    for connection in (alone, shared):
        heard.events.clear()
        for number in range(watch.WATCHES_PER_CONNECTION_MAX + 1):
            watches.watch(connection, Watch(number, f"t/{number}"))
        assert sum(isinstance(event, Refused) for event in heard.events) == (0 if connection.shared else 1)
