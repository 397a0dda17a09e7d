"""Watch and Unwatch: which records a watch delivers, when, and which are dropped."""

from __future__ import annotations

from domain.command import Unwatch, Watch
from domain.errors import ErrorCode
from domain.event import Event, Refused, WatchedMessages, WatchStarted
from domain.message.message import LOCAL_HOST, Message
from domain.message.record import Record, encode
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume import watch
from gateway.usecase.consume.watch import Watches
from tests.connection_driver import RecordingDriver
from tests.neighbours.loop import TurnClock


def record(topic: str, path: str = "", body: bytes = b"x", offset: int = 0) -> bytes:
    properties = f"originMqttTopic\x01{path}\x02".encode() if path else b""
    return encode(Message(topic, body, properties, queue_id=0), offset, offset * 100, 1, LOCAL_HOST)


def client() -> tuple[ClientConnection, list[Event]]:
    heard = RecordingDriver()
    return ClientConnection("test", heard), heard.recorded


def test_a_turn_of_matching_records_is_one_event() -> None:
    clock = TurnClock()
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
    clock = TurnClock()
    watches = Watches(clock)
    connection, events = client()
    for ticket, pattern in enumerate(("t", "t/#", "+", "#", "t/+")):
        watches.watch(connection, Watch(ticket, pattern))
    watches.arrived("t", 0, [record("t")])
    clock.turn()
    assert {event.ticket for event in events if isinstance(event, WatchedMessages)} == {0, 1, 2, 3}


def test_unwatch_and_disconnect_stop_what_has_not_been_delivered_yet() -> None:
    clock = TurnClock()
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
    clock = TurnClock()
    watches = Watches(clock)
    connection, events = client()
    watches.watch(connection, Watch(1, "a"))
    watches.watch(connection, Watch(1, "b"))
    watches.arrived("a", 0, [record("a")])
    clock.turn()
    assert events == [WatchStarted(1), WatchStarted(1)]
    assert watches.watching == 1


def test_bad_filters_and_too_many_watches_are_refused() -> None:
    watches = Watches(TurnClock())
    connection, events = client()
    watches.watch(connection, Watch(0, "a/#/b"))
    for ticket in range(watch.WATCHES_PER_CONNECTION_MAX + 1):
        watches.watch(connection, Watch(ticket, "x"))
    refusals = [event.failure.code for event in events if isinstance(event, Refused)]
    assert refusals == [ErrorCode.FILTER_ILLEGAL, ErrorCode.QUOTA]


def test_a_flood_takes_many_turns_and_comes_in_order() -> None:
    clock = TurnClock()
    watches = Watches(clock)
    connection, events = client()
    watches.watch(connection, Watch(1, "t"))
    count = 5 * watch.TURN_OFFERS + 3
    watches.arrived("t", 0, [record("t", offset=n) for n in range(count - 1)])
    watches.arrived("t", 0, [record("t", offset=count - 1)])
    assert watches.arriving > 0
    for _ in range(7):
        clock.turn()
    offsets = [Record(each).queue_offset for event in events if isinstance(event, WatchedMessages) for each in event.records]
    assert offsets == list(range(count))
    assert max(len(event.records) for event in events if isinstance(event, WatchedMessages)) <= 2 * watch.TURN_OFFERS
    assert (watches.arriving, watches.dropped) == (0, 0)


def test_a_watch_that_is_behind_loses_the_oldest_records() -> None:
    clock = TurnClock()
    watches = Watches(clock)
    watches.pending_max = 4
    connection, events = client()
    watches.watch(connection, Watch(1, "t"))
    watches.arrived("t", 0, [record("t", offset=n) for n in range(7)])
    clock.turn()
    delivered = events[-1]
    assert isinstance(delivered, WatchedMessages)
    assert [Record(each).queue_offset for each in delivered.records] == [3, 4, 5, 6]
    assert watches.dropped == 3


def test_a_record_for_thousands_of_watches_takes_many_turns() -> None:
    clock = TurnClock()
    watches = Watches(clock)
    heard = RecordingDriver()
    connection = ClientConnection("coap", heard, shared=True)
    count = 3 * watch.TURN_OFFERS
    for number in range(count):
        watches.watch(connection, Watch(number, "t"))
    heard.recorded.clear()
    watches.arrived("t", 0, [record("t", offset=0), record("t", offset=1)])
    got: dict[object, list[int]] = {}
    for turn in range(200):
        before = len(heard.recorded)
        clock.turn()
        assert len(heard.recorded) - before <= 2 * watch.TURN_WATCHES
        if turn == 0:  # one that has ended meanwhile gets nothing
            watches.unwatch(connection, Unwatch(count - 1))
    for event in heard.recorded:
        assert isinstance(event, WatchedMessages)
        got.setdefault(event.ticket, []).extend(Record(each).queue_offset for each in event.records)
    assert got == {number: [0, 1] for number in range(count - 1)}
    assert watches.arriving == 0


def test_only_a_connection_of_one_peer_has_a_bound_of_its_own() -> None:
    watches = Watches(TurnClock())
    heard = RecordingDriver()
    alone, shared = ClientConnection("mqtt", heard), ClientConnection("coap", heard, shared=True)
    for connection in (alone, shared):
        heard.recorded.clear()
        for number in range(watch.WATCHES_PER_CONNECTION_MAX + 1):
            watches.watch(connection, Watch(number, f"t/{number}"))
        assert sum(isinstance(event, Refused) for event in heard.recorded) == (0 if connection.shared else 1)
