"""The pump: one write for each turn, one end of each connection, and a fault that ends one connection only."""

from __future__ import annotations

import logging
import weakref

import pytest

from domain.admin.topic import ListTopics
from domain.command import Disconnected
from domain.delivery.routed import ConfirmDeliveries
from domain.event import Done
from gateway.connection.client_connection import CLOSED_DRIVER
from gateway.connection.client_socket import HALF_CLOSED_NS, LINGER_BYTES_MAX, STALL_NS
from gateway.connection.context import LINGER_NS
from protocols.adapter import Peer
from tests.gateway.bench import Bench
from tests.gateway.scripted import FakeTransport, ScriptedConnection


def test_peer_and_born_host_come_from_the_socket() -> None:
    bench = Bench().open()
    assert bench.peer == Peer("10.1.2.3", 4567, b"\x0a\x01\x02\x03\x00\x00\x11\xd7", "127.0.0.1", 1883)


def test_answers_of_one_turn_leave_in_one_write() -> None:
    bench = Bench().open()
    bench.connection.commands = [ListTopics(number) for number in range(16)]
    bench.handler.then = lambda client, command: client.answer(Done(command.ticket))  # type: ignore[attr-defined]
    bench.pump.data_received(b"x")
    assert bench.transport.writes == []
    bench.clock.run_turn()
    assert bench.transport.writes == [b"answer" * 16]


def test_acknowledgements_alone_need_no_flush() -> None:
    bench = Bench().open()
    bench.clock.run_turn()
    bench.connection.when = 5
    for alone, paused in ((True, False), (False, False), (True, True)):
        bench.connection.commands = [ConfirmDeliveries([1], alone)]
        bench.connection.queue = [b"waits"]
        if paused:
            bench.pump.pause()
        bench.pump.data_received(b"x")
        bench.clock.run_turn()
        assert bench.transport.writes == ([] if alone and not paused else [b"waits"])
        bench.transport.writes.clear()
        bench.connection.queue = []


def test_late_answers_are_written_in_their_own_turn() -> None:
    bench = Bench().open()
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    bench.pump.client.answer(Done(2))
    bench.clock.run_turn()
    assert bench.transport.writes == [b"answer", b"answer"]


def test_many_or_large_pieces_arrive_whole_and_in_order() -> None:
    bench = Bench().open()
    pieces = [bytes([number]) * 30_000 for number in range(5)]
    bench.connection.queue = list(pieces)
    bench.pump.data_received(b"x")
    bench.clock.run_turn()
    assert b"".join(bench.transport.writes) == b"".join(pieces)
    assert bench.counters.bytes_out == 150_000


@pytest.mark.parametrize("way", ["eof", "reset", "lost", "adapter", "node"])
def test_session_ends_exactly_once_however_it_ends(way: str) -> None:
    bench = Bench().open()
    ended: list[str] = []
    bench.pump.client.on_close.append(lambda: ended.append(way))
    if way == "eof":
        bench.pump.eof_received()
    elif way == "adapter":
        bench.connection.commands = [Disconnected("protocol-error")]
        bench.connection.closed = True
        bench.pump.data_received(b"bad")
    elif way == "node":
        bench.pump.close()
    bench.clock.run_turn()
    bench.pump.connection_lost(ConnectionResetError() if way == "reset" else None)
    bench.clock.run_turn()
    assert ended == [way]
    assert len(bench.ends) == 1
    assert bench.pump.client.closed
    assert sum(bench.counters.disconnects.values()) == 1
    assert bench.counters.connections_open == 0
    assert bench.context.pumps == {}


def test_what_has_ended_is_freed_at_once_without_the_collector() -> None:
    bench = Bench().open()
    bench.connection.when = bench.clock.monotonic_ns() + STALL_NS
    bench.pump.data_received(b"ask")
    bench.clock.run_turn()
    driver = bench.pump.client.driver
    assert driver is bench.pump.driver
    bench.pump.connection_lost(None)
    bench.clock.run_turn()
    client, gone = bench.pump.client, weakref.ref(bench.connection)
    client.driver.close()
    client.driver.throttle(1)
    client.answer(Done(None))
    bench.transport, bench.connection, driver = FakeTransport(), ScriptedConnection(), CLOSED_DRIVER
    bench.pump = bench.another()
    assert client.driver is driver
    assert gone() is None


def test_connection_that_says_nothing_at_the_end_is_ended_for_it() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    bench.pump.connection_lost(ConnectionResetError())
    assert [command.reason for command in bench.ends] == ["reset"]


@pytest.mark.parametrize("way", ["eof", "reset", "lost"])
def test_input_that_waits_in_a_connection_outlives_its_socket(way: str) -> None:
    """`protocols.adapter.Parking`: what was received is executed, whoever closes before the answer that it waits for."""
    bench = Bench().open()
    bench.connection.at_end = []
    bench.connection.unhandled = True
    bench.pump.data_received(b"connect and the rest")
    if way == "eof":
        bench.pump.eof_received()
    bench.pump.connection_lost(ConnectionResetError() if way == "reset" else None)
    bench.clock.run_ns(1_000)
    assert bench.connection.received == [b"connect and the rest", b""]
    assert bench.ends == []
    bench.connection.when = bench.clock.monotonic_ns() + 10
    bench.connection.at_expiry = [ListTopics(1), Disconnected("goodbye")]
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.counters.connections_open == 1
    assert bench.transport.writes == []
    bench.clock.run_ns(10)
    bench.clock.run_turn()
    assert bench.handler.commands == [ListTopics(1), Disconnected("goodbye")]
    assert bench.counters.connections_open == 0
    assert bench.context.pumps == {}


def test_a_connection_whose_input_waits_no_more_is_ended_for_it() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    bench.connection.unhandled = True
    bench.pump.connection_lost(None)
    bench.connection.unhandled = False
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert [command.reason for command in bench.ends] == ["lost"]
    assert bench.context.pumps == {}


def test_input_that_waits_keeps_no_connection_of_a_node_that_stops() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    bench.connection.unhandled = True
    bench.pump.connection_lost(None)
    bench.clock.run_turn()
    bench.pump.pause()
    bench.pump.close()
    bench.clock.run_turn()
    assert len(bench.ends) == 1
    assert bench.context.pumps == {}


def test_goodbye_is_written_before_the_close() -> None:
    bench = Bench().open()
    bench.connection.queue = [b"goodbye"]
    bench.connection.closed = True
    bench.connection.commands = [Disconnected("bad-frame")]
    bench.pump.data_received(b"bad")
    bench.clock.run_turn()
    assert bench.transport.writes == [b"goodbye"]
    assert bench.transport.closing
    assert bench.counters.disconnects == {"bad-frame": 1}


def test_bytes_and_answers_after_the_end_are_dropped() -> None:
    bench = Bench().open()
    bench.connection.commands = [Disconnected("bad-frame")]
    bench.pump.data_received(b"bad")
    bench.clock.run_turn()
    bench.pump.data_received(b"more")
    bench.pump.client.answer(Done(1))
    assert bench.connection.received == [b"bad"]
    assert bench.connection.answered == []


def test_closed_connection_that_is_not_read_is_aborted() -> None:
    bench = Bench().open()
    bench.pump.close()
    bench.clock.run_ns(LINGER_NS - 1)
    assert bench.transport.closing
    assert not bench.transport.aborted
    bench.clock.run_ns(1)
    assert bench.transport.aborted


def test_connections_that_end_wait_for_their_peers_with_one_timer() -> None:
    bench = Bench(connections_max=100).open()
    transports = [bench.transport, *(FakeTransport() for _ in range(50))]
    pumps = [bench.pump]
    for transport in transports[1:]:
        pumps.append(bench.another())
        pumps[-1].connection_made(transport)
    bench.clock.run_turn()
    armed = bench.clock.armed
    for pump in pumps[:-1]:
        pump.close()
        bench.clock.run_turn()
    assert bench.clock.armed == armed + 1
    bench.clock.run_ns(LINGER_NS // 2)
    pumps[-1].close()
    bench.clock.run_turn()
    pumps[1].connection_lost(None)
    bench.clock.run_ns(LINGER_NS // 2)
    assert [transport.aborted for transport in transports] == [True, False, *[True] * 48, False]
    bench.clock.run_ns(LINGER_NS // 2)
    assert transports[-1].aborted
    armed = bench.clock.armed
    bench.clock.run_ns(10 * LINGER_NS)
    assert bench.clock.armed == armed, "no timer without a connection"


def test_a_connection_that_has_ended_is_not_paused_for_its_close() -> None:
    bench = Bench().open()
    bench.connection.commands = [Disconnected("closed")]
    bench.connection.reading = False
    bench.pump.data_received(b"bye")
    assert bench.transport.reading
    bench.clock.run_turn()
    assert bench.transport.closing


def test_peer_that_still_sends_is_heard_out_and_not_reset() -> None:
    bench = Bench()
    hung_up: list[object] = []
    bench.context.end_socket = lambda transport, input_ended: hung_up.append((transport, input_ended))
    bench.open()
    bench.connection.reading = False
    bench.pump.data_received(b"x")
    bench.clock.run_turn()
    assert not bench.transport.reading
    bench.connection.queue = [b"too large"]
    bench.connection.closed = True
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.transport.writes == [b"too largeanswer"]
    assert hung_up == [(bench.transport, False)]
    assert bench.transport.reading
    assert not bench.transport.closing
    bench.pump.data_received(b"the rest")
    assert bench.connection.received == [b"x"]
    assert not bench.pump.eof_received(), "the loop closes"


def test_peer_that_goes_on_sending_after_the_last_answer_is_reset() -> None:
    bench = Bench()
    bench.context.end_socket = lambda transport, input_ended: None
    bench.open()
    bench.connection.closed = True
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    bench.pump.data_received(bytes(LINGER_BYTES_MAX))
    assert not bench.transport.aborted
    bench.pump.data_received(b"x")
    assert bench.transport.aborted


def test_last_words_to_a_slow_reader_have_longer() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.pump.close()
    bench.clock.run_ns(STALL_NS - 1)
    assert not bench.transport.aborted
    bench.pump.resume_writing()
    bench.clock.run_ns(LINGER_NS)
    assert bench.transport.aborted


def test_half_closed_peer_gets_its_answers_and_is_not_waited_for_for_ever() -> None:
    bench = Bench().open()
    bench.connection.at_end = []
    assert bench.pump.eof_received()
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.transport.writes == [b"answer"]
    assert not bench.transport.closing
    bench.clock.run_ns(HALF_CLOSED_NS)
    assert bench.transport.aborted


def test_connection_that_stops_reading_pauses_the_socket() -> None:
    bench = Bench().open()
    bench.connection.reading = False
    bench.pump.data_received(b"x")
    bench.clock.run_turn()
    assert not bench.transport.reading
    bench.connection.reading = True
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.transport.reading


def test_peer_that_does_not_read_is_not_read_from_nor_written_to() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    assert not bench.transport.reading
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.transport.writes == []
    bench.pump.resume_writing()
    bench.clock.run_turn()
    assert bench.transport.writes == [b"answer"]
    assert bench.transport.reading
    bench.clock.run_ns(STALL_NS * 2)
    assert not bench.transport.aborted


def test_peer_that_never_reads_is_dropped() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.run_ns(STALL_NS)
    assert bench.transport.aborted


def test_paused_node_does_not_read_again() -> None:
    bench = Bench().open()
    bench.pump.pause()
    bench.pump.client.answer(Done(1))
    bench.clock.run_turn()
    assert bench.transport.writes == [b"answer"]
    assert not bench.transport.reading


def test_deadline_expires_once_and_never_early() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.monotonic_ns() + 5_000
    bench.connection.at_expiry = [Disconnected("handshake-late")]
    bench.open()
    bench.clock.run_ns(4_999)
    assert bench.ends == []
    bench.clock.run_ns(1)
    assert [command.reason for command in bench.ends] == ["handshake-late"]


def test_deadline_that_moves_on_costs_no_timer_a_message() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.monotonic_ns() + 5_000
    bench.open()
    for _ in range(100):
        bench.clock.run_ns(1)
        bench.connection.when = bench.clock.monotonic_ns() + 5_000
        bench.pump.data_received(b"x")
        bench.clock.run_turn()
    assert bench.clock.armed == 1
    bench.clock.run_ns(5_000)
    assert bench.connection.when is None


def test_deadline_that_comes_nearer_is_armed_again() -> None:
    bench = Bench()
    bench.connection.when = bench.clock.monotonic_ns() + 5_000
    bench.open()
    bench.connection.when = bench.clock.monotonic_ns() + 10
    bench.pump.data_received(b"x")
    bench.clock.run_ns(10)
    assert bench.connection.when is None


@pytest.mark.parametrize("verb", ["receive", "answer", "outgoing", "deadline", "expire"])
def test_adapter_fault_costs_its_connection_and_is_logged_once(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.connection.when = bench.clock.monotonic_ns() + 10
    bench.open()
    other = FakeTransport()
    healthy, bench.connection = bench.connection, ScriptedConnection()
    second = bench.another()
    second.connection_made(other)
    bench.clock.run_turn()
    healthy.broken = {verb}
    with caplog.at_level(logging.ERROR, "headgate.pump"):
        bench.pump.data_received(b"x")
        bench.pump.client.answer(Done(1))
        second.client.answer(Done(2))
        bench.clock.run_ns(10)
    assert bench.transport.aborted
    assert [record.exc_text is not None or record.exc_info is not None for record in caplog.records] == [True]
    assert bench.counters.refusals == {"adapter-fault": 1}
    assert bench.counters.disconnects == {"adapter-fault": 1}
    assert other.writes == [b"answer"]
    assert not other.aborted


def test_use_case_fault_costs_the_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench().open()

    def fail(client: object, command: object) -> None:
        raise RuntimeError("a bug in a use case")

    bench.handler.then = fail
    bench.connection.commands = [ListTopics(1)]
    bench.pump.data_received(b"x")
    assert bench.transport.aborted
    assert bench.pump.client.closed
