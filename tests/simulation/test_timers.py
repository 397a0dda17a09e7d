"""Delays on a whole node: all 18 levels, timers to a year ahead, recall; over kills, power failures and retention.

Invariants: never early, at most 1 s late while the node is up, once; no segment that a pending timer needs is deleted.
"""

from __future__ import annotations

import json

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.sender import Sender
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 8
LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
LATE_MS = 1_000
"""Greatest lateness in ms without faults; the target of 100 ms for the 99th percentile is measured on a real clock."""
DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


def stored(world: World) -> dict[str, int]:
    """Body -> store time of all visible messages."""
    return {record.body.decode(): record.store_ms for queue in world.stored(TOPIC, QUEUES) for record in queue}


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_all_levels_come_at_their_time(faults: str) -> None:
    world = World.started(18)
    sender = Sender(world, "p")
    due: dict[str, int] = {}
    for level in range(1, 21):
        sent_ms = world.clock.wall_ms()
        sender.send(TOPIC, f"level {level}".encode(), DELAY=str(level))
        due[f"level {level}"] = sent_ms + LEVELS_S[min(level, 18) - 1] * 1000
    up_ms = world.clock.wall_ms()
    lives: list[int] = []
    while world.clock.wall_ms() < max(due.values()) + 2_000:
        world.clock.run_for(world.chance.choice((700, 13_000, 400_000)))
        assert set(stored(world)) >= {name for name, at in due.items() if at + LATE_MS < world.clock.wall_ms()}
        if faults != "none":
            world.again(power=faults == "power", away_ms=100)
            lives.append(world.clock.wall_ms())
            world.clock.run_for(LATE_MS)
    found = stored(world)
    assert set(found) == set(due)
    for name, at in due.items():
        # A timer that became due while the node was down is delivered after its start.
        late = LATE_MS if any(up_ms <= life <= at + LATE_MS + 500 and life >= at for life in lives) else 100
        assert at <= found[name] <= at + (late if faults != "none" else 100), name


@pytest.mark.parametrize("seed", range(4))
def test_timers_to_a_year_ahead_over_kills_and_a_retention_of_a_minute(seed: int) -> None:
    """Every timer is delivered once, after its time and with its body, whatever retention has deleted since."""
    store = {"retention_ms": 60_000, "segment_bytes": 64 * 1024, "checkpoint_ms": 5_000}
    world = World.started(seed, Config(tables={"store": store}))
    sender = Sender(world, "p")
    now = world.clock.wall_ms()
    delays = [0, 1, 999, 60_000, DAY_MS, 30 * DAY_MS, YEAR_MS, *(world.chance.randrange(YEAR_MS) for _ in range(10))]
    due = {f"timer {number}": now + delay for number, delay in enumerate(delays)}
    for name, at in due.items():
        sender.send(TOPIC, name.encode(), TIMER_DELIVER_MS=str(at))
    came: dict[str, int] = {}
    for name, at in sorted(due.items(), key=lambda item: item[1]):
        ahead = at - world.clock.wall_ms()
        if ahead > 200_000:
            sender.send("noise", b"." * 60_000)
            world.kill(power=world.chance.random() < 0.5)
            world.clock.step_wall(ahead - 150_000)
            world.start()
            world.clock.run_for(100_000)
            seen = stored(world)
            assert name not in seen, "early"
            came.update({each: seen[each] for each in seen})
        world.clock.run_for(max(0, at - world.clock.wall_ms() - 1))
        assert name not in stored(world) or at < world.clock.wall_ms(), "early"
        world.clock.run_for(400)
        came.update(stored(world))
        assert at <= came[name] <= at + 200, (name, came[name] - at)
    assert set(came) == set(due)


def test_a_delay_beyond_a_year_is_refused() -> None:
    world = World.started(3)
    sender = Sender(world, "p")
    assert sender.refused(TOPIC, b"x", TIMER_DELAY_MS=str(367 * DAY_MS)) == codes.MESSAGE_ILLEGAL
    assert sender.refused(TOPIC, b"x", TIMER_DELIVER_MS="soon") == codes.MESSAGE_ILLEGAL
    assert stored(world) == {}


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_recall_before_and_after_a_restart_and_of_what_was_delivered(power: bool) -> None:
    world = World.started(4)
    sender = Sender(world, "p")
    handle = {
        name: sender.send(TOPIC, name.encode(), TIMER_DELAY_SEC="3600")["recallHandle"]
        for name in ("before", "after", "kept", "twice")
    }
    assert sender.recall(TOPIC, handle["before"]) == 0
    assert sender.recall(TOPIC, handle["twice"]) == 0
    world.again(power)
    assert sender.recall(TOPIC, handle["after"]) == 0
    assert sender.recall(TOPIC, handle["twice"]) == 0, "said again, as by one who did not hear the answer"
    world.again(power)
    world.clock.run_for(3_600_000)
    assert list(stored(world)) == ["kept"]
    assert sender.recall(TOPIC, handle["kept"]) == codes.ILLEGAL_OPERATION, "it has been delivered"
    world.again(power)
    assert sender.recall(TOPIC, handle["kept"]) == codes.ILLEGAL_OPERATION
    assert sender.recall(TOPIC, "no handle") == codes.ILLEGAL_OPERATION
    world.clock.run_for(DAY_MS / 12)
    assert bodies([record for queue in world.stored(TOPIC, QUEUES) for record in queue]) == ["kept"]


def test_what_is_put_aside_and_what_comes_at_its_time_is_told_by_the_second() -> None:
    """brokerStatus: timerEnqueueTps and timerDequeueTps, for timers and levels."""
    world = World.started(28)
    sender = Sender(world, "p")

    def rates() -> tuple[float, float]:
        table = json.loads(sender.call(codes.GET_RUNTIME_INFO).body)["table"]
        return float(table["timerEnqueueTps"]), float(table["timerDequeueTps"])

    world.clock.run_for(25_000)
    assert rates() == (0.0, 0.0)
    due_ms = world.clock.wall_ms() + 60_000
    for number in range(20):
        sender.send(TOPIC, b"timer %d" % number, TIMER_DELIVER_MS=str(due_ms))
        sender.send(TOPIC, b"level %d" % number, DELAY="5")
        sender.send(TOPIC, b"at once %d" % number)
    aside, due = rates()
    assert 40 / 20 <= aside <= 40
    assert due == 0.0
    world.clock.run_for(30_000)
    assert rates() == (0.0, 0.0)
    world.clock.run_until(lambda: len(stored(world)) == 60, 60_000)
    aside, due = rates()
    assert aside == 0.0
    assert 20 / 20 <= due <= 40
    world.again()
    assert rates() == (0.0, 0.0), "counted from the start of the node"
