"""Connections that are made again: when, to which server, and what their user gets."""

from __future__ import annotations

import pytest

from gateway.link.backoff import Backoff
from gateway.link.stream import SERVERS_MAX, Stream
from gateway.link.wire import WireUser
from tests.gateway.apache.scripted_cluster import WAY_NS, ScriptedServer, ScriptedWire
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import FixedEntropy

MS = 1_000_000


class StreamScene:
    """A stream to servers that are not there until they are added, and its user, which always retries."""

    def __init__(self, servers: int = 1) -> None:
        self.clock = VirtualClock()
        self.servers = [ScriptedServer(f"s{number}", self.clock) for number in range(servers)]
        for each in self.servers:
            each.up = False
        self.dialled: list[tuple[int, int]] = []
        self.log: list[str] = []
        self.good = True
        endpoints = [("10.0.0.1", number) for number in range(servers)]
        self.stream = Stream(endpoints, self, self.clock, Backoff(50, 200, FixedEntropy()), self)

    def dial(self, host: str, port: int, user: WireUser, on_full: object = None) -> ScriptedWire:
        self.dialled.append((port, (self.clock.monotonic_ns() - WAY_NS * len(self.dialled)) // MS))
        return ScriptedWire(self.servers[port], self.clock, user)

    def opened(self) -> None:
        self.log.append("opened")
        if self.good:
            self.stream.succeeded()

    def received(self, data: bytes) -> None:
        self.log.append(data.decode())

    def ended(self, reason: str) -> None:
        self.log.append("ended")
        self.stream.retry()

    def times_ms(self) -> list[int]:
        """When each connection was tried, without the time that refusals take."""
        begin = self.dialled[0][1]
        return [when - begin for _, when in self.dialled]


@pytest.mark.parametrize(("part", "share"), [(0.0, 0.5), (0.5, 1.0), (0.999, 1.499)])
def test_pauses_double_to_the_longest_vary_by_half_and_begin_again_after_a_success(part: float, share: float) -> None:
    backoff = Backoff(50, 1_000, FixedEntropy(part))
    pauses = [50, 100, 200, 400, 800, 1_000, 1_000]
    assert [backoff.next_ns() for _ in pauses] == [int(each * share * MS) for each in pauses]
    backoff.reset()
    assert backoff.next_ns() == int(50 * share * MS)


def test_a_pause_can_be_asked_to_be_longer_and_is_never_shorter() -> None:
    backoff = Backoff(100, 100, FixedEntropy())
    assert [backoff.next_ns(least_ms) for least_ms in (0, 20, 700)] == [100 * MS, 100 * MS, 700 * MS]


def test_after_many_failures_the_pause_is_still_the_longest() -> None:
    backoff = Backoff(50, 1_000, FixedEntropy())
    assert {backoff.next_ns() for _ in range(2_000)} == {each * MS for each in (50, 100, 200, 400, 800, 1_000)}


def test_one_server_is_tried_after_pauses() -> None:
    scene = StreamScene()
    scene.stream.connect()
    scene.stream.connect()
    scene.clock.run_for(800)
    assert scene.times_ms() == [0, 50, 150, 350, 550, 750]
    assert scene.stream.attempts == 6
    assert scene.stream.failing


def test_several_servers_are_tried_at_once_and_a_pause_follows_the_last_one() -> None:
    scene = StreamScene(3)
    scene.stream.connect()
    scene.clock.run_for(200)
    assert [port for port, _ in scene.dialled] == [0, 1, 2] * 3
    assert scene.times_ms() == [0, 0, 0, 50, 50, 50, 150, 150, 150]


def test_a_connection_that_was_good_is_made_again_after_the_shortest_pause_at_the_next_server() -> None:
    scene = StreamScene(3)
    scene.stream.connect()
    scene.clock.run_for(100)
    scene.servers[1].up = True
    scene.clock.run_until(lambda: scene.stream.open, 1_000)
    assert scene.stream.where == "10.0.0.1:1"
    assert not scene.stream.failing
    before = len(scene.dialled)
    scene.servers[1].stop()
    scene.clock.run_for(70)
    assert [port for port, _ in scene.dialled[before:]] == [2, 0, 1]
    first = scene.dialled[before][1] - scene.dialled[before - 1][1]
    assert 49 <= first <= 51


def test_a_connection_that_was_there_but_not_good_counts_as_a_failure() -> None:
    scene = StreamScene()
    scene.good = False
    scene.servers[0].up = True
    scene.stream.connect()
    for _ in range(4):
        scene.clock.run_until(lambda: scene.stream.open, 1_000)
        scene.servers[0].connections[0].end("closed")
    scene.clock.run_for(1_000)
    assert scene.times_ms()[:5] == [0, 50, 150, 350, 550]


def test_bytes_are_written_and_counted_for_each_connection() -> None:
    scene = StreamScene()
    scene.servers[0].up = True
    scene.stream.write(b"too early")
    scene.stream.connect()
    scene.clock.run_until(lambda: scene.stream.open, 100)
    scene.servers[0].connections[0].notify(b"hello")
    scene.clock.run_for(10)
    assert scene.log == ["opened", "hello"]
    assert scene.stream.received_bytes == 5
    scene.servers[0].connections[0].end("closed")
    assert scene.stream.received_bytes == 5
    scene.clock.run_until(lambda: scene.stream.open, 100)
    assert scene.stream.received_bytes == 0


def test_a_user_ends_a_connection_for_its_reason_and_drops_one_without() -> None:
    scene = StreamScene()
    scene.servers[0].up = True
    scene.stream.end("there is none")
    scene.stream.connect()
    scene.clock.run_until(lambda: scene.stream.open, 100)
    scene.stream.end("nonsense")
    assert scene.log == ["opened", "ended"]
    assert not scene.stream.begun
    assert scene.servers[0].connections == []
    scene.clock.run_until(lambda: scene.stream.open, 100)
    scene.stream.drop()
    scene.clock.run_for(1_000)
    assert scene.log == ["opened", "ended", "opened"]
    assert not scene.stream.begun


@pytest.mark.parametrize("when_ms", [0, 10, 60], ids=["being made", "paused", "open"])
def test_after_close_nothing_is_made_and_nothing_is_called(when_ms: int) -> None:
    scene = StreamScene()
    scene.stream.connect()
    scene.servers[0].up = when_ms > 10
    scene.clock.run_for(when_ms)
    if when_ms > 10:
        scene.clock.run_until(lambda: scene.stream.open, 1_000)
    scene.stream.close()
    before, tried = list(scene.log), len(scene.dialled)
    scene.stream.connect()
    scene.stream.retry()
    scene.clock.run_for(5_000)
    assert scene.log == before
    assert len(scene.dialled) == tried


def test_other_servers_are_used_once_the_present_connection_has_ended() -> None:
    scene = StreamScene(3)
    scene.servers[0].up = scene.servers[2].up = True
    scene.stream.connect()
    scene.clock.run_for(10)
    scene.stream.follow([("10.0.0.1", 1), ("10.0.0.1", 2)], scene, 100)
    scene.clock.run_for(1_000)
    assert scene.stream.open
    assert scene.stream.where == "10.0.0.1:0", "it stays, though it is none of them"
    scene.stream.end("the leader has gone")
    scene.clock.run_for(1_000)
    assert scene.stream.open
    assert [port for port, _ in scene.dialled] == [0, 1, 2]


def test_a_server_that_another_one_has_named_is_next_and_then_the_one_behind_that_which_named_it() -> None:
    scene = StreamScene(5)
    scene.servers[1].up = scene.servers[2].up = True
    scene.good = False

    def opened() -> None:
        scene.log.append("opened")
        scene.stream.turn_to(("10.0.0.1", 4))
        scene.stream.end("it follows")

    scene.opened = opened  # type: ignore[method-assign]
    scene.stream.connect()
    scene.clock.run_for(200)
    assert [port for port, _ in scene.dialled][:7] == [0, 1, 4, 2, 4, 3, 4]


def test_a_server_that_nobody_knew_is_tried_and_there_is_a_bound() -> None:
    scene = StreamScene(2)
    scene.servers += [ScriptedServer(f"s{number}", scene.clock) for number in range(2, 80)]
    for each in scene.servers[2:]:
        each.up = False
    for number in range(2, 80):
        scene.stream.turn_to(("10.0.0.1", number))
        scene.stream.connect()
        scene.clock.run_for(1_000)
    assert scene.stream.servers == SERVERS_MAX
    assert {port for port, _ in scene.dialled} == set(range(SERVERS_MAX))
