"""Work is done in slices and turns of limited length, hosts take turns, and senders wait for the store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from domain.admin.topic import ListTopics
from domain.command import Command, Disconnected, Send
from domain.limits import SECOND_NS
from domain.message.message import Message
from domain.turn import RECEIVED_NS
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.intake import (
    ASKED_NS,
    ENDING_NS,
    HELD_BYTES_MAX,
    LONG_NS,
    MESSAGE_NS,
    SHORT_TURNS,
    SLICE_BYTES_FIRST,
    SLICE_BYTES_MAX,
    SLICE_NS,
    SPARED_MAX,
    UNFINISHED_BYTES_MAX,
)
from gateway.connection.pump import Pump
from gateway.observe.counters import CounterRegistry
from protocols.adapter import Peer
from tests.gateway.scripted import FakeTransport, RecordingHandler, ScriptedConnection
from tests.neighbours.loop import TurnClock


class CostlyConnection(ScriptedConnection):
    """Takes `ns_per_byte` for each byte, and makes a command of each receive."""

    def __init__(self, room: Room, command: type[Command]) -> None:
        super().__init__()
        self._room = room
        self._command = command
        self.pump: Pump
        self.ns_per_byte = 0
        self.ns_to_expire = 0

    def expire(self, now: int) -> Sequence[Command]:
        self._room.order.append((self, 0))
        self._room.clock.spend(self.ns_to_expire)
        return super().expire(now)

    def receive(self, data: bytes, now: int) -> list[Command]:
        if data:
            self._room.order.append((self, len(data)))
            self._room.clock.spend(self.ns_per_byte * len(data))
            self.commands = [Send(None, [self._room.message], wait=False) if self._command is Send else ListTopics(None)]
        return list(super().receive(data, now))


class Room:
    """Pumps of one context, and the order in which their bytes were handled."""

    def __init__(self) -> None:
        self.clock = TurnClock()
        self.unfinished = 0
        self.handler = RecordingHandler()
        self.message = Message("t", b"")
        self.context = ConnectionContext(
            self.handler, self.clock, CounterRegistry(), ConnectionLimits(100), unfinished_bytes=lambda: self.unfinished
        )
        self.order: list[tuple[CostlyConnection, int]] = []

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.clock.turn()

    def enter(
        self, command: type[Command] = ListTopics, host: str = "10.1.2.3"
    ) -> tuple[Pump, CostlyConnection, FakeTransport]:
        connection, transport = CostlyConnection(self, command), FakeTransport(host)

        def connect(peer: Peer, now: int) -> CostlyConnection:
            return connection

        pump = Pump(self.context, "test", connect)
        pump.connection_made(transport)
        connection.pump = pump
        self.clock.turn()
        return pump, connection, transport

    def flood(self, ns_per_byte: int, host: str = "10.1.2.3") -> CostlyConnection:
        """A connection that sends as much as one read takes."""
        pump, connection, _ = self.enter(host=host)
        connection.ns_per_byte = ns_per_byte
        pump.data_received(body(SLICE_BYTES_MAX))
        return connection


def body(size: int) -> bytes:
    return bytes(at % 251 for at in range(size))


def test_a_small_read_is_handled_at_once() -> None:
    pump, connection, transport = Room().enter()
    pump.data_received(b"one")
    assert connection.received == [b"one"]
    assert transport.reading


def test_a_large_read_is_handled_in_slices_and_nothing_is_read_meanwhile() -> None:
    room = Room()
    pump, connection, transport = room.enter()
    connection.ns_per_byte = 500
    pump.data_received(body(SLICE_BYTES_MAX))
    assert (connection.received, transport.reading) == ([], False)
    room.turns(100)
    assert b"".join(connection.received) == body(SLICE_BYTES_MAX)
    assert max(map(len, connection.received)) <= 2 * SLICE_BYTES_FIRST
    assert transport.reading


def test_slices_that_take_long_become_small_and_cheap_ones_become_large() -> None:
    room = Room()
    connection = room.flood(1_000)
    room.turns(100)
    assert SLICE_NS // 2 < len(connection.received[-2]) * connection.ns_per_byte <= SLICE_NS
    connection.ns_per_byte = 0
    for _ in range(20):
        connection.pump.data_received(body(SLICE_BYTES_MAX))
        room.turns(100)
    assert len(connection.received[-1]) == SLICE_BYTES_MAX


def test_no_turn_handles_bytes_for_longer_than_its_time() -> None:
    room = Room()
    for _ in range(10):
        room.flood(1_000)
    turns: list[int] = []
    while sum(size for _, size in room.order) < 10 * SLICE_BYTES_MAX:
        before = len(room.order)
        room.turns(1)
        turns.append(sum(size for _, size in room.order[before:]))
    assert max(turns) * 1_000 <= RECEIVED_NS + SLICE_BYTES_FIRST * 1_000


def test_a_newcomer_is_handled_before_the_next_slice_of_a_flood() -> None:
    room = Room()
    flooding = room.flood(1_000)
    room.turns(1)
    newcomer, asking, _ = room.enter()
    newcomer.data_received(b"ask")
    served = len(room.order)
    room.turns(1)
    assert room.order[served][0] is asking
    assert len(b"".join(flooding.received)) < SLICE_BYTES_MAX


def test_a_host_that_comes_is_served_before_one_that_always_has_more() -> None:
    room = Room()
    flooding = room.flood((LONG_NS - 2 * MESSAGE_NS) // SLICE_BYTES_FIRST)  # two slices take more than the time of a turn
    room.turns(3)
    room.order.clear()
    newcomer, asking, _ = room.enter(host="10.9.9.9")
    for at in range(3):
        room.clock.advance()
        room.clock.run_due()  # the flood has its slice, then the socket of the other one is read
        newcomer.data_received(b"ask")
        room.clock.run_soon()
        before = len(room.order)
        room.turns(1)
        assert room.order[before][0] is asking, at
        room.turns(2)
    assert flooding in [connection for connection, _ in room.order]


def test_a_sender_waits_while_the_store_has_too_much_and_others_do_not() -> None:
    room = Room()
    sender, sending, transport = room.enter(Send)
    reader, reading, _ = room.enter()
    sender.data_received(b"first")
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    sender.data_received(b"second")
    reader.data_received(b"ask")
    room.turns(100)
    assert sending.received == [b"first"]
    assert not transport.reading
    assert reading.received == [b"ask"]
    room.unfinished = 0
    room.turns(20)
    assert sending.received == [b"first", b"second"]
    assert transport.reading
    assert room.context.intake.waited == 1


def test_a_sender_waits_after_a_few_messages_of_the_turn_in_which_the_store_got_too_much() -> None:
    room = Room()
    sender, sending, transport = room.enter(Send)
    sender.data_received(b"first")
    sender.data_received(b"second")
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    for _ in range(ASKED_NS // (2 * MESSAGE_NS) + 1):
        if transport.reading:
            sender.data_received(b"more")
    assert not transport.reading
    assert len(sending.received) <= 2 + ASKED_NS // (2 * MESSAGE_NS)


def test_connections_that_send_one_message_each_wait_as_one_that_sends_many() -> None:
    room = Room()
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    entered = [room.enter(Send) for _ in range(50)]
    for pump, _, _ in entered:
        pump.data_received(b"first")
        pump.data_received(b"second")
    room.turns(10)
    sent = room.handler.commands
    assert sum(isinstance(command, Send) for command in sent) == 1, "a host that waits for nothing may send one"
    assert [transport.reading for _, _, transport in entered] == [False] * 50
    room.unfinished = 0
    room.turns(50)
    assert sum(isinstance(command, Send) for command in sent) == 100
    assert all(connection.received == [b"first", b"second"] for _, connection, _ in entered)
    assert all(transport.reading for _, _, transport in entered)


def test_a_host_whose_first_messages_wait_is_not_read_beyond_a_bound() -> None:
    room = Room()
    room.message = Message("t", bytes(HELD_BYTES_MAX // 4))
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    entered = [room.enter(Send) for _ in range(20)]
    for pump, _, _ in entered:
        pump.data_received(b"first")
    other, asking, _ = room.enter(host="10.9.9.9")
    other.data_received(b"ask")
    room.turns(10)
    taken = sum(len(connection.received) for _, connection, _ in entered)
    assert taken == 1 + 4, "one is carried out, and what waits is a little more than the bound at most"
    assert asking.received == [b"ask"]
    room.unfinished = 0
    room.turns(50)
    assert all(connection.received == [b"first"] for _, connection, _ in entered)
    assert not room.context.intake.holds("10.1.2.3")


@pytest.mark.parametrize("way", ["eof", "lost", "reset", "closed by the node"])
def test_a_first_message_that_waits_outlives_its_socket(way: str) -> None:
    room = Room()
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    room.enter(Send)[0].data_received(b"the host's own slice")
    pump, _, _ = room.enter(Send)
    pump.data_received(b"first")
    if way == "eof":
        pump.eof_received()
    elif way == "closed by the node":
        pump.close()
    else:
        pump.connection_lost(ConnectionResetError() if way == "reset" else None)
    room.turns(5)
    before = len(room.handler.commands)
    room.unfinished = 0
    room.turns(5)
    sent = [type(command) for command in room.handler.commands[before:]]
    assert sent == ([] if way == "closed by the node" else [Send, Disconnected])
    assert not room.context.intake.holds("10.1.2.3")


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("way", ["open", "lost"])
def test_a_first_message_that_waits_outlives_its_connection(way: str, reading: bool) -> None:
    room = Room()
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    room.enter(Send)[0].data_received(b"the host's own slice")
    pump, connection, transport = room.enter()

    def leave(data: bytes, now: int) -> list[Command]:
        connection.closed, connection.reading = True, reading
        return [Send(None, [Message("t", b"")], wait=False), Disconnected("goodbye", True)]

    connection.receive = leave  # type: ignore[method-assign]
    before = len(room.handler.commands)
    pump.data_received(b"first and last")
    if way == "lost":
        pump.connection_lost(None)
    room.turns(5)
    assert room.handler.commands[before:] == []
    room.unfinished = 0
    room.turns(5)
    assert [type(command) for command in room.handler.commands[before:]] == [Send, Disconnected]
    assert room.handler.commands[-1] == Disconnected("goodbye", True)
    assert transport.closing or way == "lost"
    assert not room.context.intake.holds("10.1.2.3")


def test_a_first_message_of_a_deadline_waits_too() -> None:
    room = Room()
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    room.enter(Send)[0].data_received(b"the host's own slice")
    pump, connection, transport = room.enter()
    connection.when = room.clock.monotonic_ns()
    connection.at_expiry = [ListTopics(None), Send(None, [Message("t", b"")], wait=False), ListTopics(None)]
    before = len(room.handler.commands)
    pump.driver.flush()
    room.turns(5)
    assert [type(command) for command in room.handler.commands[before:]] == [ListTopics]
    assert not transport.reading
    room.unfinished = 0
    room.turns(5)
    assert [type(command) for command in room.handler.commands[before:]] == [ListTopics, Send, ListTopics]
    assert transport.reading


def test_a_host_does_not_wait_for_the_messages_of_another_one() -> None:
    room = Room()
    flood, flooding, _ = room.enter(Send)
    senders = [room.enter(Send, host=f"10.9.9.{number}") for number in range(SPARED_MAX + 1)]
    for pump, _, _ in senders:
        pump.data_received(b"first")
    flood.data_received(b"first")
    flood.data_received(b"second")
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    room.turns(3)
    for pump, _, _ in [(flood, flooding, None), *senders]:
        pump.data_received(b"third")
    room.turns(3)
    assert b"third" not in flooding.received, "what waits is its own"
    taken = [connection.received.count(b"third") for _, connection, _ in senders]
    assert sum(taken) == SPARED_MAX, "one slice each, of a bounded number of hosts"
    senders[0][0].data_received(b"fourth")
    room.turns(100)
    assert b"fourth" not in senders[0][1].received
    room.unfinished = 0
    room.turns(100)
    assert b"third" in flooding.received
    assert b"fourth" in senders[0][1].received


def test_a_host_does_not_wait_for_the_first_messages_of_another_one() -> None:
    room = Room()
    alone, sending, _ = room.enter(Send, host="10.9.9.9")
    alone.data_received(b"first")
    alone.data_received(b"second")
    flood, flooding, _ = room.enter(Send)
    flooding.ns_per_byte = ASKED_NS
    flood.data_received(b"first")
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    alone.data_received(b"third")
    room.turns(3)
    assert sending.received[-1] == b"third", "what fills the store is of the other host"


def test_who_has_sent_last_goes_on_last() -> None:
    room = Room()
    flood, flooding, full = room.enter(Send)
    other, asking, held = room.enter(Send, host="10.9.9.9")
    for pump in (other, flood):
        pump.data_received(b"first")
        pump.data_received(b"second")
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    for pump, transport in ((flood, full), (other, held)):
        while transport.reading:
            pump.data_received(b"more")
        room.turns(3)
    room.unfinished = 0
    room.order.clear()
    room.turns(20)
    assert [connection for connection, _ in room.order] == [asking, flooding], "though the other one has waited for longer"


def test_a_host_gets_one_long_slice_in_a_turn() -> None:
    room = Room()
    for _ in range(4):
        flooding = room.flood(LONG_NS // SLICE_BYTES_FIRST + 1)
        flooding.commands = []
    room.order.clear()
    turns = []
    for _ in range(2 * SHORT_TURNS + 3):
        before = len(room.order)
        room.turns(1)
        turns.append(len(room.order) - before)
    assert sum(turns) in (2, 3)
    assert turns[turns.index(1) :][: SHORT_TURNS + 2] == [1, *[0] * SHORT_TURNS, 1], "and then it leaves turns to others"


class Chore:
    """Work of the node itself, which is no host's, over some turns."""

    host = ""
    sends = False

    def __init__(self, slices: int, room: Room) -> None:
        self.left = slices
        self._room = room

    def take_slice(self) -> bool:
        self.left -= 1
        self._room.clock.spend(SLICE_NS)
        self._room.context.intake.used(SLICE_NS, self._room.clock.monotonic_ns())
        return self.left > 0


def test_work_of_the_node_itself_goes_on_turn_by_turn() -> None:
    room = Room()
    chore = Chore(20, room)
    room.context.intake.add(chore)
    room.turns(20)
    assert chore.left == 0, chore.left


def test_what_was_read_is_handled_before_the_end_of_the_stream() -> None:
    room = Room()
    pump, connection, _ = room.enter()
    pump.data_received(body(SLICE_BYTES_MAX))
    pump.eof_received()
    room.turns(100)
    assert b"".join(connection.received) == body(SLICE_BYTES_MAX)
    assert connection.received[-1] == b""


@pytest.mark.parametrize("way", ["lost", "reset", "eof, then lost"])
def test_what_a_closed_socket_has_brought_is_handled_in_slices(way: str) -> None:
    room = Room()
    leaving = [room.flood(1_000) for _ in range(5)]
    room.order.clear()
    for each in leaving:
        if way == "eof, then lost":
            each.pump.eof_received()
        each.pump.connection_lost(ConnectionResetError() if way == "reset" else None)
    longest = 0
    while room.context.pumps:
        before = len(room.order)
        room.clock.turn()
        longest = max(longest, sum(size for _, size in room.order[before:]))
    assert longest <= 2 * (RECEIVED_NS // 1_000 + SLICE_BYTES_FIRST)
    for each in leaving:
        assert b"".join(each.received) == body(SLICE_BYTES_MAX)
        assert each.received.count(b"") == 1
        assert each.received[-1] == b""


def test_a_closed_socket_whose_bytes_wait_ends_with_the_node() -> None:
    room = Room()
    closed, dropped = room.flood(1_000), room.flood(1_000)
    closed.pump.connection_lost(None)
    closed.pump.close()
    dropped.pump.pause()
    dropped.pump.connection_lost(None)
    room.turns(3)
    assert list(room.context.pumps) == []
    assert closed.pump.client.closed
    assert dropped.pump.client.closed


def test_a_deadline_waits_for_bytes_that_have_arrived() -> None:
    room = Room()
    pump, connection, _ = room.enter(Send)
    pump.data_received(b"first")
    connection.when = room.clock.monotonic_ns() + SECOND_NS
    room.unfinished = UNFINISHED_BYTES_MAX + 1
    pump.data_received(b"the rest of a frame")
    for _ in range(30):
        room.clock.turn(SECOND_NS // 10)
    assert connection.when is not None
    room.unfinished = 0
    for _ in range(30):
        room.clock.turn(SECOND_NS // 10)
    assert connection.when is None


def test_a_paused_node_keeps_unread_bytes_unread() -> None:
    room = Room()
    pump, connection, _ = room.enter()
    pump.data_received(body(SLICE_BYTES_MAX))
    pump.pause()
    room.turns(100)
    assert connection.received == []


def test_hosts_take_turns_however_many_connections_they_have() -> None:
    room = Room()
    for _ in range(8):
        room.flood(1_000)
    alone = room.flood(1_000, host="10.9.9.9")
    room.order.clear()
    room.turns(8)
    slices = [connection is alone for connection, _ in room.order]
    assert abs(2 * sum(slices) - len(slices)) <= 2


def test_what_is_handled_at_once_belongs_to_the_turn_of_the_slices() -> None:
    room = Room()
    quick, connection, _ = room.enter()
    connection.ns_per_byte = RECEIVED_NS
    flooding = room.flood(1_000)
    room.clock.advance()
    room.order.clear()
    quick.data_received(b"x")
    room.clock.run_due()
    assert [one for one, _ in room.order] == [connection]
    room.clock.run_soon()
    room.turns(1)
    assert room.order[-1][0] is flooding


def test_deadlines_that_pass_at_once_share_the_turns() -> None:
    room = Room()
    entered = [room.enter() for _ in range(8)]
    for pump, connection, _ in entered:
        connection.when = SECOND_NS
        connection.ns_to_expire = RECEIVED_NS // 2
        connection.commands = []
        pump.driver.flush()
    turns = []
    room.clock.advance(2 * SECOND_NS)
    while len(room.order) < len(entered):
        before = len(room.order)
        room.clock.run_due()
        room.clock.run_soon()
        turns.append(len(room.order) - before)
        room.clock.advance()
    assert max(turns) <= 2
    assert {connection for connection, _ in room.order} == {connection for _, connection, _ in entered}


def test_a_deadline_that_has_moved_while_it_waited_is_not_due() -> None:
    room = Room()
    busy, costly, _ = room.enter()
    costly.ns_per_byte = RECEIVED_NS
    pump, connection, _ = room.enter()
    connection.when = SECOND_NS
    pump.driver.flush()
    room.clock.advance(SECOND_NS)
    busy.data_received(b"x")
    room.clock.run_due()
    connection.when = 3 * SECOND_NS
    room.turns(5)
    assert (connection, 0) not in room.order
    for _ in range(30):
        room.clock.turn(SECOND_NS // 10)
    assert (connection, 0) in room.order


def test_what_the_end_of_a_connection_costs_later_in_the_turn_counts() -> None:
    room = Room()
    for _ in range(10):
        pump, connection, _ = room.enter()
        connection.when = SECOND_NS
        connection.ns_to_expire = RECEIVED_NS // 4 - ENDING_NS - MESSAGE_NS
        connection.at_expiry = [Disconnected("idle")]
        pump.driver.flush()
    room.clock.advance(SECOND_NS)
    room.clock.run_due()
    assert len(room.order) == 4


def test_the_addresses_of_one_ipv6_network_take_turns_as_one_host() -> None:
    room = Room()
    room.flood(1_000, host="2001:db8:0:1::1")
    many = [room.flood(1_000, host=f"2001:db8::{number}") for number in range(5)]
    room.turns(200)
    served = [connection in many for connection, _ in room.order]
    until = len(served) - served[::-1].index(False)  # afterwards all of `alone` is done
    assert served[:until].count(False) >= served[:until].count(True) - 10


def test_the_steps_of_a_task_have_turns_in_which_no_bytes_are_handled() -> None:
    room = Room()
    room.flood(1_000)
    newcomer, asking, _ = room.enter(host="10.9.9.9")
    room.turns(1)
    room.context.intake.leave(3)
    served = len(room.order)
    for _ in range(3):
        newcomer.data_received(b"ask")
        room.turns(1)
    assert len(room.order) == served
    room.turns(1)
    assert room.order[served] == (asking, 9), "all that came meanwhile"
    assert len(room.order) > served + 1, "and the flood goes on"


def test_turns_that_are_left_to_a_task_end_when_nothing_else_waits() -> None:
    room = Room()
    newcomer, asking, _ = room.enter()
    room.turns(3)
    room.context.intake.leave(2)
    newcomer.data_received(b"ask")
    assert asking.received == []
    room.turns(3)
    assert asking.received == [b"ask"]
    newcomer.data_received(b"ask")
    assert asking.received == [b"ask"] * 2
