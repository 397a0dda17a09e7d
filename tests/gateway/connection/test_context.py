"""What connections share: the flush at the end of a turn, deadlines, admission by address, joined writes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.refusal import Ending
from gateway.connection.context import (
    JOIN_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    ConnectionAdmission,
    ConnectionContext,
    DeadlineTimer,
    TurnFlush,
    peer_of,
    write,
)
from gateway.connection.transport import AdmissionCheck
from gateway.observe.counters import CounterRegistry
from protocols.host_shares import HostShares
from tests.gateway.scripted import FakeTransport, RecordingHandler
from tests.simulation.kit.clock import VirtualClock

MS = 1_000_000


class Flushed:
    """Something with a `flush`."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self.flush = flush


class Doors:
    """An admission check with a list of hosts inside."""

    def __init__(self, refused: Ending | None = None) -> None:
        self.refused = refused
        self.inside: list[str] = []

    def enter(self, host: str, now: int) -> Ending | None:
        """AdmissionCheck.enter."""
        if self.refused is None:
            self.inside.append(host)
        return self.refused

    def leave(self, host: str) -> None:
        """AdmissionCheck.leave."""
        self.inside.remove(host)


def context(
    check: AdmissionCheck | None = None, proxy: str = "", output_bytes_max: int = OUTPUT_BYTES_MAX, connections_max: int = 9,
    controlled: bool = False,
) -> ConnectionContext:  # fmt: skip
    """A context; `proxy` is the address of a proxy."""
    return ConnectionContext(
        RecordingHandler(), VirtualClock(), CounterRegistry(), connections_max, admission_check=check,
        is_proxy=lambda host: host == proxy, output_bytes_max=output_bytes_max, controlled=controlled,
    )  # fmt: skip


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


def test_a_connection_is_counted_once_and_leaves_once() -> None:
    doors = Doors()
    admission = ConnectionAdmission(context(doors))
    assert admission.enter("10.0.0.1", 0) == ""
    assert admission.enter("10.0.0.1", 0) == ""
    assert doors.inside == ["10.0.0.1"]
    admission.leave()
    admission.leave()
    assert doors.inside == []


def test_a_refused_connection_is_told_why_and_does_not_leave() -> None:
    doors = Doors(Ending.CONNECT_RATE)
    admission = ConnectionAdmission(context(doors))
    assert admission.enter("10.0.0.1", 0) == "connect-rate"
    admission.leave()


def test_behind_a_proxy_the_address_of_the_client_is_admitted() -> None:
    doors = Doors()
    admission = ConnectionAdmission(context(doors, proxy="10.9.9.9"))
    assert admission.enter("10.9.9.9", 0) == ""
    assert doors.inside == []
    assert admission.enter("10.0.0.1", 0) == ""
    assert doors.inside == ["10.0.0.1"]


def test_without_limits_everybody_is_admitted() -> None:
    admission = ConnectionAdmission(context())
    assert admission.enter("10.0.0.1", 0) == ""
    admission.leave()


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


def enter(found: ConnectionContext, host: str, count: int) -> tuple[list[ConnectionAdmission], str]:
    """Connections from `host` until one of `count` is refused -> (those that are admitted, why it is; "": none)."""
    inside: list[ConnectionAdmission] = []
    for _ in range(count):
        each = ConnectionAdmission(found)
        reason = each.enter(host, 0)
        if reason:
            return inside, reason
        inside.append(each)
    return inside, ""


def test_half_of_the_connections_are_for_clients_that_have_not_authenticated_and_half_of_these_for_one_host() -> None:
    found = context(connections_max=80, controlled=True)
    one, reason = enter(found, "10.0.0.1", 80)
    assert (len(one), reason) == (20, "unauthenticated-connections")
    others = [enter(found, f"10.0.0.{number}", 80)[0] for number in range(2, 20)]
    assert 36 <= len(one) + sum(map(len, others)) <= 40
    assert enter(found, "10.0.1.1", 1)[1] == "unauthenticated-connections"
    one.clear()
    assert len(enter(found, "10.0.1.1", 80)[0]) == 10, "and there is always room for another one"


def test_a_client_that_has_authenticated_or_gone_makes_room_for_another_one() -> None:
    found = context(connections_max=16, controlled=True)
    inside, reason = enter(found, "10.0.0.1", 16)
    assert (len(inside), reason) == (4, "unauthenticated-connections")
    inside[0].unknown = None  # as a pump does
    assert enter(found, "10.0.0.1", 2)[1] == "unauthenticated-connections"
    inside += enter(found, "10.0.0.1", 1)[0]
    assert len(inside) == 5
    inside[1].leave()
    assert enter(found, "10.0.0.1", 1)[1] == ""


def test_where_access_is_not_controlled_nobody_has_to_authenticate() -> None:
    assert len(enter(context(connections_max=4), "10.0.0.1", 100)[0]) == 100


def test_a_proxy_s_connections_count_among_all_until_the_clients_are_known_and_then_by_their_addresses() -> None:
    found = context(connections_max=80, proxy="10.9.9.9", controlled=True)
    inside, reason = enter(found, "10.9.9.9", 80)
    assert (len(inside), reason) == (40, "unauthenticated-connections")
    for each in inside[:30]:
        each.leave()
    reasons = [each.enter("10.0.0.1", 0) for each in inside[30:]]
    assert reasons == [""] * 10
    assert len(enter(found, "10.9.9.9", 80)[0]) == 30


def test_a_connection_that_is_refused_for_another_reason_is_not_counted() -> None:
    found = context(Doors(Ending.CONNECT_RATE), connections_max=16, controlled=True)
    for _ in range(20):
        assert ConnectionAdmission(found).enter("10.0.0.1", 0) == "connect-rate"
    assert found.unauthenticated is not None
    assert found.unauthenticated.bytes_held == 0


def test_the_bound_follows_the_number_of_connections() -> None:
    found = context(connections_max=80, controlled=True)
    inside, _ = enter(found, "10.0.0.1", 80)
    found.limit(160)
    assert len(enter(found, "10.0.0.1", 80)[0]) == 20
    assert len(inside) == 20
