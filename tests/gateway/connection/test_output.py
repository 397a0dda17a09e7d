"""Output for a peer that does not read is bounded, and the connection ends with a reason."""

from __future__ import annotations

import asyncio
import socket

import pytest

from domain.errors import ConfigError
from domain.event import Done
from gateway.connection.client_socket import STALL_NS
from gateway.connection.context import OUTPUT_BYTES_MAX
from gateway.connection.pump import Pump
from gateway.guard.settings import LimitsSettings
from gateway.node.settings_tables import read
from protocols.host_shares import SHARED_BYTES_MAX
from tests.gateway.bench import Bench
from tests.gateway.scripted import FakeTransport, ScriptedConnection


@pytest.mark.parametrize(("most", "bound"), [(OUTPUT_BYTES_MAX, 0), (1_000_000, 1_000_000)])
def test_a_connection_has_the_bound_of_the_house_and_nothing_is_set_where_it_is_the_usual_one(most: int, bound: int) -> None:
    bench = Bench()
    bench.context.output_bytes_max = most
    bench.open()
    assert bench.transport.output_bytes_max == bound


def test_the_usual_bound_is_that_of_the_loop_and_of_the_settings() -> None:
    async def usual() -> int:
        here, there = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, here)
        try:
            return transport.get_write_buffer_limits()[1]
        finally:
            transport.abort()
            there.close()

    assert asyncio.run(usual()) == OUTPUT_BYTES_MAX == LimitsSettings().output_bytes_max
    with pytest.raises(ConfigError):
        read(LimitsSettings, "limits", {"output_bytes_max": 0}, {})


def test_who_never_reads_is_dropped_with_a_reason_and_counted_once() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.run_ns(STALL_NS)
    bench.pump.connection_lost(None)
    assert bench.transport.aborted
    assert [end.reason for end in bench.ends] == ["slow-reader"]
    assert bench.counters.all_refusals() == bench.counters.all_disconnects() == {"slow-reader": 1}


def test_who_catches_up_stays() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.run_ns(STALL_NS - 1)
    bench.pump.resume_writing()
    bench.clock.run_ns(STALL_NS)
    assert not bench.transport.aborted
    assert bench.ends == []


def test_what_peers_do_not_read_is_counted_until_they_read_or_go() -> None:
    bench = Bench().open()
    bench.transport.unwritten = 1_000_000
    bench.pump.pause_writing()
    assert bench.context.unread.bytes_held == 1_000_000
    bench.pump.resume_writing()
    assert bench.context.unread.bytes_held == 0
    bench.pump.pause_writing()
    bench.pump.connection_lost(None)
    assert bench.context.unread.bytes_held == 0


def test_above_the_bound_the_host_that_leaves_most_unread_loses_its_stalled_connections() -> None:
    room = Bench(100)
    pumps = []
    for number in range(30):
        connection, transport = ScriptedConnection(), FakeTransport(f"10.0.0.{number % 3 == 0:d}")
        pump = Pump(room.context, "test", lambda peer, now, made=connection: made)  # type: ignore[misc]
        pump.connection_made(transport)
        transport.unwritten = SHARED_BYTES_MAX // 25
        pumps.append((pump, transport))
    for pump, _ in pumps[:-1]:
        pump.pause_writing()
    pumps[-1][0].driver.answer(Done(1))
    room.clock.run_turn()
    aborted = [number for number, (_, transport) in enumerate(pumps) if transport.aborted]
    assert aborted == [number for number in range(29) if number % 3], "not those of the other host, nor the one that reads"
    for number in aborted:
        pumps[number][0].connection_lost(None)
    assert room.context.unread.bytes_held <= SHARED_BYTES_MAX
    assert {end.reason for end in room.ends} == {"slow-reader"}
