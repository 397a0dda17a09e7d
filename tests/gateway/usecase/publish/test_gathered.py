"""Messages of a turn are appended together, and each is answered as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.command import QueryLatest, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import property as properties
from domain.message.message import RETAIN_SET, Message, Placed
from domain.topic.topic import PERM_READ, Topic
from gateway.usecase.publish import latest
from gateway.usecase.publish.gathered_sends import GATHERED_BODY_BYTES_MAX, GATHERED_BYTES_MAX
from tests.gateway.usecase.bench import Bench, bench
from tests.gateway.usecase.event_recorder import EventRecorder, only

place = bench


class Port:
    """A connection whose messages are gathered: of one client, or of a datagram port.

    appends   how many messages each append had
    refuses   why the log takes none; None: it takes all
    """

    def __init__(self, bench: Bench, shared: bool) -> None:
        self.bench = bench
        self.recorder = EventRecorder()
        self.recorder.connection.shared = shared
        self.appends: list[int] = []
        self.sending = bench.handler.sending
        self.sending.gathers = True
        self.refuses: Failure | None = None
        self._log = self.sending.gathered._log
        self.sending.gathered._log = cast(Any, self)

    def append(self, messages: Sequence[Message], done: Callable[[list[Placed] | Failure], None]) -> None:
        """The log, as gathered messages get there."""
        self.appends.append(len(messages))
        if self.refuses is None:
            self._log.append(messages, done)
        else:
            done(self.refuses)

    def send(self, ticket: int, message: Message, wait: bool = True, typed: bool = False) -> None:
        self.bench.handler.handle(self.recorder.connection, Send(ticket, [message], wait, typed))

    def heard(self) -> list[Event]:
        self.bench.clock.run_for(50)
        return self.recorder.take()


@pytest.fixture(params=["of one client", "of a datagram port"])
def port(place: Bench, request: pytest.FixtureRequest) -> Port:
    place.ask(PutTopic(1, Topic("T", 4, 4)))
    place.ask(PutTopic(1, Topic("U", 4, 4)))
    return Port(place, request.param == "of a datagram port")


def places(events: list[Event]) -> dict[object, int]:
    """Ticket -> position in the log."""
    found = {}
    for event in events:
        assert isinstance(event, Sent)
        [placed] = event.placed
        found[event.ticket] = placed.physical_offset
    return found


def test_messages_of_a_turn_are_one_append_and_each_has_its_answer(port: Port) -> None:
    for number in range(100):
        port.send(number, Message("T", b"%d" % number))
    assert port.sending.waiting_bytes > 100 * 256
    found = places(port.heard())
    assert (port.appends, port.sending.waiting_bytes) == ([100], 0)
    assert sorted(found, key=lambda ticket: found[ticket]) == list(range(100)), "in the order of arrival"
    port.send(1, Message("T", b"x"))
    assert list(places(port.heard())) == [1]


def test_connections_share_an_append(port: Port) -> None:
    other = EventRecorder()
    port.send(1, Message("T", b"1"))
    port.bench.handler.handle(other.connection, Send(1, [Message("T", b"2")], typed=True))
    port.send(2, Message("T", b"3"))
    mine = places(port.heard())
    [between] = places(other.take()).values()
    assert (port.appends, list(mine)) == ([3], [1, 2])
    assert mine[1] < between < mine[2]


def test_a_message_of_the_wrong_type_is_refused_alone(port: Port) -> None:
    port.send(1, Message("T", b"1"), typed=True)
    port.send(2, Message("T", b"2", properties.encode([("__SHARDINGKEY", "k")])), typed=True)
    port.send(3, Message("T", b"3"), typed=True)
    events = {event.ticket: event for event in port.heard()}
    assert [type(events[ticket]) for ticket in (1, 2, 3)] == [Sent, Refused, Sent]
    assert port.appends == [2]


def test_what_is_gathered_is_bounded_and_large_bodies_are_not(port: Port) -> None:
    for number in range(20):
        port.send(number, Message("T", b"x" * GATHERED_BODY_BYTES_MAX))
        assert port.sending.gathered.bytes <= GATHERED_BYTES_MAX
    assert port.appends == [8, 8], "before the end of the turn"
    port.send(20, Message("T", b"x" * (GATHERED_BODY_BYTES_MAX + 1)))
    assert port.appends == [8, 8, 4], "in order"
    found = places(port.heard())
    assert sorted(found, key=lambda ticket: found[ticket]) == list(range(21))


def test_other_topics_keep_the_order(port: Port) -> None:
    for number, topic in enumerate("TTUTTU"):
        port.send(number, Message(topic, b"%d" % number))
    found = places(port.heard())
    assert port.appends == [2, 1, 2, 1]
    assert sorted(found, key=lambda ticket: found[ticket]) == list(range(6))


def test_messages_that_need_more_are_appended_alone_and_in_order(port: Port) -> None:
    others = [
        Message("T", b"key", properties.encode([("HG_IDEMPOTENCY_KEY", "k")])),
        Message("T", b"latest", retain=RETAIN_SET),
        Message("T", b"delayed", properties.encode([("TIMER_DELAY_MS", "1000")])),
    ]
    for number, other in enumerate(others):
        port.send(3 * number, Message("T", b"before"))
        port.send(3 * number + 1, other)
        port.send(3 * number + 2, Message("T", b"after"))
    found = places(port.heard())
    assert sorted(found, key=lambda ticket: found[ticket]) == list(range(9))


def test_who_waits_for_no_answer_gets_none_and_keeps_the_order(port: Port) -> None:
    port.send(1, Message("T", b"1"))
    port.send(2, Message("T", b"2"), wait=False)
    port.send(3, Message("T", b"3"))
    found = places(port.heard())
    assert list(found) == [1, 3]
    assert found[3] - found[1] > 200, "the second is between them"


def test_a_message_that_is_not_accepted_is_refused_alone(port: Port) -> None:
    port.bench.ask(PutTopic(1, Topic("R", 4, 4, PERM_READ)))
    port.send(1, Message("T", b"1"))
    port.send(2, Message("R", b"2"))
    port.send(3, Message("T", b"3", properties.encode([("p", "x" * 32_760)])))
    port.send(4, Message("T", b"4"))
    events = {event.ticket: event for event in port.heard()}
    assert port.appends == [2]
    refused = {ticket: event.failure.code for ticket, event in events.items() if isinstance(event, Refused)}
    assert refused == {2: ErrorCode.NOT_ALLOWED, 3: ErrorCode.PROPERTIES_TOO_LARGE}


def test_what_the_store_refuses_is_refused_for_each(port: Port) -> None:
    failure = port.refuses = Failure(ErrorCode.STORE_UNAVAILABLE, "gone")
    for number in range(3):
        port.send(number, Message("T", b"x"))
    assert [(event.ticket, event.failure) for event in port.heard() if isinstance(event, Refused)] == [
        (number, failure) for number in range(3)
    ]  # fmt: skip


def test_a_topic_that_is_not_there_yet_takes_messages_in_order(port: Port) -> None:
    for number in range(5):
        port.send(number, Message("fresh", b"%d" % number))
    found = places(port.heard())
    assert sorted(found, key=lambda ticket: found[ticket]) == list(range(5))


def test_what_came_before_another_command_is_in_the_log_before_it(port: Port) -> None:
    port.send(1, Message("T", b"1"))
    assert port.appends == []
    port.bench.handler.handle(EventRecorder().connection, DeleteTopic(2, "T"))
    assert port.appends == [1]
    port.send(3, Message("U", b"x"))
    port.bench.handler.handle(port.recorder.connection, QueryLatest(4, latest.SPACE))
    assert port.appends[-1] == 1


def test_a_topic_may_be_closed_between_two_messages(port: Port) -> None:
    """That the last topic may be written is known by the topic itself: a change makes it another one."""
    port.send(1, Message("T", b"1"))
    assert list(places(port.heard())) == [1]
    port.bench.ask(PutTopic(1, Topic("T", 4, 4, PERM_READ)))
    port.send(2, Message("T", b"2"))
    event = only(Refused, port.heard())
    assert event.failure.code is ErrorCode.NOT_ALLOWED
