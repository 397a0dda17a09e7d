"""Output for a peer that does not read is bounded, and the connection ends with a reason."""

from __future__ import annotations

import asyncio
import socket

import pytest

from domain.errors import ConfigError
from gateway.connection.context import OUTPUT_BYTES_MAX
from gateway.connection.pump import STALL_NS
from gateway.guard.config import LimitsConfig
from gateway.node.settings import read
from tests.gateway.bench import Bench


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

    assert asyncio.run(usual()) == OUTPUT_BYTES_MAX == LimitsConfig().output_bytes_max
    with pytest.raises(ConfigError):
        read(LimitsConfig, "limits", {"output_bytes_max": 0}, {})


def test_who_never_reads_is_dropped_with_a_reason_and_counted_once() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.advance(STALL_NS)
    bench.pump.connection_lost(None)
    assert bench.transport.aborted
    assert [end.reason for end in bench.ends] == ["slow-reader"]
    assert bench.counters.all_refusals() == bench.counters.all_disconnects() == {"slow-reader": 1}


def test_who_catches_up_stays() -> None:
    bench = Bench().open()
    bench.pump.pause_writing()
    bench.clock.advance(STALL_NS - 1)
    bench.pump.resume_writing()
    bench.clock.advance(STALL_NS)
    assert not bench.transport.aborted
    assert bench.ends == []
