"""Numbers under which a relayed client has the requests of servers."""

from __future__ import annotations

from gateway.apache.relay.asked import ASKED_MAX, AskedOfClient
from gateway.apache.relay.uplink import Uplink, UplinkUser
from protocols.remoting.relayed.frame_slice import FrameSlice
from tests.gateway.apache.scripted_cluster import ScriptedCluster
from tests.simulation.kit.clock import VirtualClock


class Nobody:
    """Uses a connection that is never made."""

    def received(self, uplink: Uplink, frames: list[FrameSlice]) -> None: ...

    def lost(self, uplink: Uplink, reason: str) -> None: ...

    def regulate(self) -> None: ...


def server() -> Uplink:
    user: UplinkUser = Nobody()
    return Uplink("broker", [("10.0.0.1", 10911)], user, ScriptedCluster(VirtualClock()), 1_000)


def test_a_number_is_kept_unless_another_server_uses_it() -> None:
    asked, first, second = AskedOfClient(), server(), server()
    assert asked.add(first, 7) == 7
    other = asked.add(second, 7)
    assert other != 7
    assert asked.answered(other) == (second, 7)
    assert asked.answered(7) == (first, 7)
    assert asked.answered(7) is None
    assert asked.add(second, 7) == 7


def test_beyond_the_bound_the_oldest_request_is_forgotten() -> None:
    asked, one = AskedOfClient(), server()
    for number in range(ASKED_MAX + 1):
        asked.add(one, number)
    assert asked.answered(0) is None
    assert asked.answered(1) == (one, 1)
    assert asked.answered(ASKED_MAX) == (one, ASKED_MAX)


def test_requests_of_a_server_that_is_gone_take_no_answers() -> None:
    asked, gone, other = AskedOfClient(), server(), server()
    asked.add(gone, 1)
    asked.add(other, 2)
    asked.forget(gone)
    assert asked.answered(1) is None
    assert asked.answered(2) == (other, 2)
