"""The pump: one write a turn, one end a session, and a fault that stays where it is."""

from __future__ import annotations

import logging

import pytest

from domain.command import Disconnected, ListTopics, Send
from domain.errors import ErrorCode, Failure
from domain.event import Delivered, Done, Refused, Sent
from domain.limits import SECOND_NS
from domain.message import Message
from domain.record import Record
from domain.refusal import Reason
from domain.session import Deliveries, Delivery, Excused, Expelled, Parcel, SendOnce
from gateway.house import PumpHouse
from gateway.observe.figures import Figures, Ledger
from gateway.pump import HALF_CLOSED_NS, LINGER_NS, STALL_NS, Pump
from protocols.adapter import Peer
from tests.gateway.scripted import FakeTransport, ManualClock, RecordingHandler, ScriptedConnection


class Bench:
    """One pump with everything around it scripted."""

    def __init__(self, connections_max: int = 10) -> None:
        self.clock = ManualClock()
        self.handler = RecordingHandler()
        self.ledger = Ledger()
        self.house = PumpHouse(self.handler, self.clock, self.ledger, connections_max)
        self.connection = ScriptedConnection()
        self.transport = FakeTransport()
        self.peer: Peer | None = None
        self.pump = self.another()

    def another(self) -> Pump:
        def connect(peer: Peer, now: int) -> ScriptedConnection:
            self.peer = peer
            return self.connection

        return Pump(self.house, "test", connect)

    def open(self) -> Bench:
        self.pump.connection_made(self.transport)
        self.clock.turn()
        return self

    @property
    def figures(self) -> Figures:
        return self.ledger.of("test")

    @property
    def ends(self) -> list[Disconnected]:
        return [command for command in self.handler.commands if isinstance(command, Disconnected)]


def test_peer_and_born_host_come_from_the_socket() -> None:
    bench = Bench().open()
    assert bench.peer == Peer("10.1.2.3", 4567, b"\x0a\x01\x02\x03\x00\x00\x11\xd7", "127.0.0.1", 1883)


def test_answers_of_one_turn_leave_in_one_write() -> None:
    bench = Bench().open()
    bench.connection.commands = [ListTopics(number) for number in range(16)]
    bench.handler.then = lambda session, command: session.answer(Done(command.ticket))  # type: ignore[attr-defined]
    bench.pump.data_received(b"x")
    assert bench.transport.writes == []
    bench.clock.turn()
    assert bench.transport.writes == [b"answer" * 16]


def test_late_answers_are_written_in_their_own_turn() -> None:
    bench = Bench().open()
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    bench.pump.session.answer(Done(2))
    bench.clock.turn()
    assert bench.transport.writes == [b"answer", b"answer"]


def test_many_or_large_pieces_arrive_whole_and_in_order() -> None:
    bench = Bench().open()
    pieces = [bytes([number]) * 30_000 for number in range(5)]
    bench.connection.queue = list(pieces)
    bench.pump.data_received(b"x")
    bench.clock.turn()
    assert b"".join(bench.transport.writes) == b"".join(pieces)
    assert bench.figures.bytes_out == 150_000


@pytest.mark.parametrize("way", ["eof", "reset", "lost", "adapter", "node"])
def test_session_ends_exactly_once_however_it_ends(way: str) -> None:
    bench = Bench().open()
    ended: list[str] = []
    bench.pump.session.on_close.append(lambda: ended.append(way))
    if way == "eof":
        bench.pump.eof_received()
    elif way == "adapter":
        bench.connection.commands = [Disconnected("protocol-error")]
        bench.connection.closed = True
        bench.pump.data_received(b"bad")
    elif way == "node":
        bench.pump.close()
    bench.clock.turn()
    bench.pump.connection_lost(ConnectionResetError() if way == "reset" else None)
    bench.clock.turn()
    assert ended == [way]
    assert len(bench.ends) == 1
    assert bench.pump.session.closed
    assert sum(bench.figures.disconnects.values()) == 1
    assert bench.figures.connections_open == 0
    assert bench.house.pumps == {}


def test_connection_that_says_nothing_at_the_end_is_ended_for_it() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    bench.pump.connection_lost(ConnectionResetError())
    assert [command.reason for command in bench.ends] == ["reset"]


def test_goodbye_is_written_before_the_close() -> None:
    bench = Bench().open()
    bench.connection.queue = [b"goodbye"]
    bench.connection.closed = True
    bench.connection.commands = [Disconnected("bad-frame")]
    bench.pump.data_received(b"bad")
    bench.clock.turn()
    assert bench.transport.writes == [b"goodbye"]
    assert bench.transport.closing
    assert bench.figures.disconnects == {"bad-frame": 1}


def test_bytes_and_answers_after_the_end_are_dropped() -> None:
    bench = Bench().open()
    bench.connection.commands = [Disconnected("bad-frame")]
    bench.pump.data_received(b"bad")
    bench.clock.turn()
    bench.pump.data_received(b"more")
    bench.pump.session.answer(Done(1))
    assert bench.connection.received == [b"bad"]
    assert bench.connection.answered == []


def test_closed_connection_that_is_not_read_is_aborted() -> None:
    bench = Bench().open()
    bench.pump.close()
    bench.clock.advance(LINGER_NS - 1)
    assert bench.transport.closing
    assert not bench.transport.aborted
    bench.clock.advance(1)
    assert bench.transport.aborted


def test_peer_that_still_sends_is_heard_out_and_not_reset() -> None:
    bench = Bench()
    hung_up: list[object] = []
    bench.house.hang_up = hung_up.append
    bench.open()
    bench.connection.reading = False
    bench.pump.data_received(b"x")
    bench.clock.turn()
    assert not bench.transport.reading
    bench.connection.queue = [b"too large"]
    bench.connection.closed = True
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    assert bench.transport.writes == [b"too largeanswer"]
    assert hung_up == [bench.transport]
    assert bench.transport.reading
    assert not bench.transport.closing
    bench.pump.data_received(b"the rest")
    assert bench.connection.received == [b"x"]
    assert not bench.pump.eof_received(), "the loop closes"


def test_last_words_to_a_slow_reader_have_longer() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.pump.close()
    bench.clock.advance(STALL_NS - 1)
    assert not bench.transport.aborted
    bench.pump.resume_writing()
    bench.clock.advance(LINGER_NS)
    assert bench.transport.aborted


def test_half_closed_peer_gets_its_answers_and_is_not_waited_for_for_ever() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    assert bench.pump.eof_received()
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    assert bench.transport.writes == [b"answer"]
    assert not bench.transport.closing
    bench.clock.advance(HALF_CLOSED_NS)
    assert bench.transport.aborted


def test_connection_that_stops_reading_pauses_the_socket() -> None:
    bench = Bench().open()
    bench.connection.reading = False
    bench.pump.data_received(b"x")
    bench.clock.turn()
    assert not bench.transport.reading
    bench.connection.reading = True
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    assert bench.transport.reading


def test_peer_that_does_not_read_is_not_read_from_nor_written_to() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    assert not bench.transport.reading
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    assert bench.transport.writes == []
    bench.pump.resume_writing()
    bench.clock.turn()
    assert bench.transport.writes == [b"answer"]
    assert bench.transport.reading
    bench.clock.advance(STALL_NS * 2)
    assert not bench.transport.aborted


def test_peer_that_never_reads_is_dropped() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.advance(STALL_NS)
    assert bench.transport.aborted


def test_paused_node_does_not_read_again() -> None:
    bench = Bench().open()
    bench.pump.pause()
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    assert bench.transport.writes == [b"answer"]
    assert not bench.transport.reading


def test_deadline_expires_once_and_never_early() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.now + 5_000
    bench.connection.at_expiry = [Disconnected("handshake-late")]
    bench.open()
    bench.clock.advance(4_999)
    assert bench.ends == []
    bench.clock.advance(1)
    assert [command.reason for command in bench.ends] == ["handshake-late"]


def test_deadline_that_moves_on_costs_no_timer_a_message() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.now + 5_000
    bench.open()
    for _ in range(100):
        bench.clock.advance(1)
        bench.connection.when = bench.clock.now + 5_000
        bench.pump.data_received(b"x")
        bench.clock.turn()
    assert bench.clock.armed == 1
    bench.clock.advance(5_000)
    assert bench.connection.when is None


def test_deadline_that_comes_nearer_is_armed_again() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.now + 5_000
    bench.open()
    bench.connection.when = bench.clock.now + 10
    bench.pump.data_received(b"x")
    bench.clock.advance(10)
    assert bench.connection.when is None


@pytest.mark.parametrize("verb", ["receive", "answer", "outgoing", "deadline", "expire"])
def test_adapter_fault_costs_its_connection_and_is_logged_once(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.connection.when = bench.clock.now + 10
    bench.open()
    other = FakeTransport()
    healthy, bench.connection = bench.connection, ScriptedConnection()
    second = bench.another()
    second.connection_made(other)
    bench.clock.turn()
    healthy.broken = {verb}
    with caplog.at_level(logging.ERROR, "headgate.pump"):
        bench.pump.data_received(b"x")
        bench.pump.session.answer(Done(1))
        second.session.answer(Done(2))
        bench.clock.advance(10)
    assert bench.transport.aborted
    assert [record.exc_text is not None or record.exc_info is not None for record in caplog.records] == [True]
    assert bench.figures.refusals == {"adapter-fault": 1}
    assert bench.figures.disconnects == {"adapter-fault": 1}
    assert other.writes == [b"answer"]
    assert not other.aborted


def test_use_case_fault_costs_the_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench().open()

    def fail(session: object, command: object) -> None:
        raise RuntimeError("a bug in a use case")

    bench.handler.then = fail
    bench.connection.commands = [ListTopics(1)]
    bench.pump.data_received(b"x")
    assert bench.transport.aborted
    assert bench.pump.session.closed


def test_messages_and_refusals_are_counted() -> None:
    bench = Bench().open()
    bench.connection.commands = [Send(1, [Message("t", b"a"), Message("t", b"b")])]
    bench.pump.data_received(b"12345")
    bench.pump.session.answer(Sent(1, []))
    bench.pump.session.answer(Delivered(2, [b"r", b"r", b"r"]))
    bench.pump.session.answer(Refused(3, Failure(ErrorCode.TOPIC_NOT_FOUND)))
    assert (bench.figures.messages_in, bench.figures.messages_out, bench.figures.bytes_in) == (2, 3, 5)
    assert bench.figures.refusals == {"topic-not-found": 1}


def test_what_sessions_send_and_get_is_counted() -> None:
    bench = Bench().open()
    bench.connection.commands = [SendOnce(1, [Message("t", b""), Message("t", b"")], [1, 2])]
    bench.pump.data_received(b"x")
    delivery = Delivery(Parcel(Record(bytes(100)), b"", "t", 0), 0, 0, False, False, ())
    bench.pump.session.answer(Deliveries([delivery, delivery, delivery]))
    assert (bench.figures.messages_in, bench.figures.messages_out) == (2, 3)


def test_one_connection_too_many_is_closed_and_counted() -> None:
    bench = Bench(connections_max=1).open()
    second, transport = bench.another(), FakeTransport()
    second.connection_made(transport)
    assert transport.aborted
    second.connection_lost(None)
    assert bench.figures.refusals == {"connections-max": 1}
    assert bench.figures.connections_open == 1


class Bouncer:
    """A door that lets in so many, and knows who is inside."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside: list[str] = []

    def enter(self, host: str, now: int) -> Reason | None:
        if len(self.inside) >= self.most:
            return Reason.CONNECT_RATE
        self.inside.append(host)
        return None

    def leave(self, host: str) -> None:
        self.inside.remove(host)


def test_who_is_turned_away_at_the_door_hears_nothing_and_is_counted() -> None:
    bench = Bench()
    door = bench.house.door = Bouncer(1)
    bench.open()
    other, transport = bench.another(), FakeTransport()
    other.connection_made(transport)
    other.data_received(b"x")
    bench.clock.turn()
    assert (transport.aborted, transport.writes) == (True, [])
    assert bench.figures.refusals == {"connect-rate": 1}
    assert door.inside == ["10.1.2.3"]
    other.connection_lost(None)
    bench.pump.connection_lost(None)
    assert door.inside == []


def test_connection_that_speaks_for_others_is_not_asked_at_the_door() -> None:
    bench = Bench()
    bench.house.door = Bouncer(0)
    bench.house.fronts = lambda host: host == "10.1.2.3"
    bench.open()
    assert not bench.transport.aborted


def test_connection_that_rests_is_read_again_and_excused_when_it_is_over() -> None:
    bench = Bench().open()
    bench.pump.rest(bench.clock.now + SECOND_NS)
    bench.pump.rest(bench.clock.now + 1)
    assert not bench.transport.reading
    bench.clock.advance(SECOND_NS // 2)
    assert not bench.transport.reading
    bench.clock.advance(SECOND_NS)
    assert bench.transport.reading
    assert bench.connection.answered == [Excused()]


def test_deadline_of_a_connection_that_rests_is_asked_for_again_once_it_is_excused() -> None:
    bench = Bench().open()
    bench.connection.when = bench.clock.now + SECOND_NS
    bench.pump.session.answer(Done(1))
    bench.clock.turn()
    bench.pump.rest(bench.clock.now + 5 * SECOND_NS)
    bench.connection.at_expiry = [Disconnected("keep-alive")]
    bench.clock.advance(SECOND_NS)
    assert Excused() in bench.connection.answered


def test_expelled_connection_says_its_word_and_ends() -> None:
    bench = Bench().open()
    failure = Failure(ErrorCode.NOT_ALLOWED, "gone")
    bench.pump.expel(failure)
    bench.pump.expel(failure)
    bench.clock.turn()
    assert bench.connection.answered == [Expelled(failure)]
    assert bench.transport.writes == [b"answer"]
    assert [end.reason for end in bench.ends] == ["revoked"]
    assert bench.transport.closing


def test_refusal_that_ends_its_connection_is_counted_once() -> None:
    bench = Bench().open()
    bench.pump.session.answer(Refused(1, Failure(ErrorCode.NOT_ALLOWED)))
    bench.connection.at_expiry = [Disconnected("not-allowed")]
    bench.connection.when = bench.clock.now
    bench.clock.turn()
    bench.clock.advance(1)
    assert bench.figures.disconnects == {"not-allowed": 1}
    assert bench.figures.refusals == {"not-allowed": 1}
