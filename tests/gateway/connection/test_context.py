"""What connections share: the flush at the end of a turn, deadlines, joined writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import (
    JOIN_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    ConnectionContext,
    DeadlineTimer,
    TurnFlush,
    peer_of,
    write,
)
from gateway.observe.counters import CounterRegistry
from protocols.host_shares import HostShares
from tests.gateway.scripted import FakeTransport, RecordingHandler
from tests.simulation.kit.clock import VirtualClock

MS = 1_000_000


class Flushed:
    """Something with a `flush`."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self.flush = flush


def context(output_bytes_max: int = OUTPUT_BYTES_MAX, connections_max: int = 9) -> ConnectionContext:
    return ConnectionContext(
        RecordingHandler(),
        VirtualClock(),
        CounterRegistry(),
        ConnectionLimits(connections_max),
        output_bytes_max=output_bytes_max,
    )


def test_all_pumps_are_flushed_once_at_the_end_of_the_turn_in_order() -> None:
    clock, flushed = VirtualClock(), list[str]()
    flush = TurnFlush(clock, HostShares(), lambda: None)
    for name in ("a", "b"):
        flush.add(Flushed(partial(flushed.append, name)))
    assert flushed == []
    clock.run_turn()
    assert flushed == ["a", "b"]
    flush.add(Flushed(partial(flushed.append, "c")))
    clock.run_turn()
    assert flushed == ["a", "b", "c"]


def test_a_pump_that_is_added_during_the_flush_is_flushed_too() -> None:
    clock, flushed = VirtualClock(), list[str]()
    flush = TurnFlush(clock, HostShares(), lambda: None)
    second = Flushed(partial(flushed.append, "second"))
    flush.add(Flushed(lambda: flush.add(second)))
    clock.run_turn()
    assert flushed == ["second"]


def test_a_deadline_runs_once_at_its_time() -> None:
    clock, ran = VirtualClock(), list[int]()
    timer = DeadlineTimer(clock, lambda: ran.append(clock.monotonic_ns()))
    timer.start(10 * MS)
    assert timer.pending
    clock.run_for(100)
    assert (ran, timer.pending) == ([10 * MS], False)


def test_a_deadline_that_is_set_again_replaces_the_earlier_one() -> None:
    clock, ran = VirtualClock(), list[int]()
    timer = DeadlineTimer(clock, lambda: ran.append(clock.monotonic_ns()))
    timer.start(50 * MS)
    timer.start(20 * MS)
    clock.run_for(100)
    assert ran == [20 * MS]


def test_a_deadline_is_extended_but_never_brought_forward() -> None:
    clock, ran = VirtualClock(), list[int]()
    timer = DeadlineTimer(clock, lambda: ran.append(clock.monotonic_ns()))
    timer.start(50 * MS)
    assert [timer.extend(when * MS) for when in (40, 50, 60)] == [False, False, True]
    clock.run_for(100)
    assert ran == [60 * MS]


@pytest.mark.parametrize("close", [False, True])
def test_a_cancelled_deadline_does_not_run_and_a_closed_one_never_again(close: bool) -> None:
    clock, ran = VirtualClock(), list[int]()
    timer = DeadlineTimer(clock, lambda: ran.append(clock.monotonic_ns()))
    timer.start(10 * MS)
    timer.close() if close else timer.cancel()
    clock.run_for(20)
    assert ran == []
    timer.start(30 * MS)
    clock.run_for(20)
    assert ran == ([] if close else [30 * MS])


def test_the_node_is_full_at_its_number_of_connections() -> None:
    found = context(connections_max=2)
    fill = []
    for number in range(3):
        fill.append(found.full)
        found.pumps[number] = None
    assert fill == [False, False, True]


def test_the_output_buffer_is_limited_only_where_it_differs_from_the_default() -> None:
    plain, small = FakeTransport(), FakeTransport()
    context().accept(plain)
    context(output_bytes_max=1_000).accept(small)
    assert (plain.output_bytes_max, small.output_bytes_max) == (0, 1_000)


def test_a_peer_has_the_addresses_of_both_ends() -> None:
    peer = peer_of(FakeTransport())
    assert peer is not None
    assert (peer.host, peer.port, peer.local_host, peer.local_port) == ("10.1.2.3", 4567, "127.0.0.1", 1883)
    assert peer.born_host == b"\x0a\x01\x02\x03\x00\x00\x11\xd7"


def test_a_peer_that_has_gone_has_no_address() -> None:
    assert peer_of(FakeTransport("")) is None


@given(st.lists(st.sampled_from((0, 1, 5, JOIN_BYTES_MAX // 2, JOIN_BYTES_MAX)).map(bytes), max_size=4))
def test_all_bytes_are_written_in_one_call_and_counted(parts: list[bytes]) -> None:
    transport, counters = FakeTransport(), CounterRegistry().of("mqtt")
    write(transport, parts, counters)
    assert transport.writes == ([b"".join(parts)] if parts else [])
    assert counters.bytes_out == sum(map(len, parts))
