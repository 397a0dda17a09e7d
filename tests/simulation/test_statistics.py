"""Statistics of topics, groups and the node that tools get, compared with the run's own counts: over days, and with kills."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from domain.limits import MILLISECOND_NS
from protocols.remoting import codes
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 2
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
QUEUE = re.compile(r'\{"brokerName":"broker-a","queueId":(\d+),"topic":"([^"]*)"\}:(\{[^{}]*\})')
FAULTS = pytest.mark.parametrize("faults", ["none", "kill", "power"])


class Truth:
    """Counts of messages and their times, from one start of the node on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events: list[tuple[int, int]] = []

    def note(self, count: int = 1) -> None:
        """Count `count` messages at the current time."""
        self.events.append((self.world.clock.monotonic_ns() // MILLISECOND_NS, count))

    def since(self, when_ms: int) -> int:
        """Messages since a time."""
        return sum(count for at_ms, count in self.events if at_ms >= when_ms)

    def fits(self, told: int, last_ms: int, slot_ms: int) -> bool:
        """Whether `told` is the count of the last `last_ms`, or of up to one slot more."""
        now_ms = self.world.clock.monotonic_ns() // MILLISECOND_NS
        return self.since(now_ms - last_ms) <= told <= self.since(now_ms - last_ms - slot_ms)


def up(seed: int) -> tuple[World, Tool]:
    """A node with the topic."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, QUEUES)
    return world, tool


def rates(tool: Tool, name: str, key: str) -> dict[str, dict[str, float]]:
    """Rates of a topic or group (code 315)."""
    answer = tool.call(codes.GET_RATES, {"statsName": name, "statsKey": key})
    assert answer.code == 0, answer.remark
    found: dict[str, dict[str, float]] = json.loads(answer.body)
    return found


def figures(tool: Tool) -> dict[str, str]:
    """Figures of the broker (code 28)."""
    found: dict[str, str] = json.loads(tool.call(codes.GET_RUNTIME_INFO).body)["table"]
    return found


def queues(body: bytes) -> dict[tuple[str, int], dict[str, int]]:
    """The table of a TopicStatsTable or ConsumeStats, whose keys are JSON objects."""
    return {(topic, int(queue)): json.loads(row) for queue, topic, row in QUEUE.findall(body.decode())}


def progress(tool: Tool, group: str) -> dict[int, dict[str, int]]:
    """Progress of a group on the topic, by queue (code 208)."""
    answer = tool.call(codes.GET_PROGRESS, {"consumerGroup": group, "topic": TOPIC})
    assert answer.code == 0, answer.remark
    return {queue: row for (_, queue), row in queues(answer.body).items()}


def each_way(world: World) -> dict[str, tuple[str, Callable[[], int]]]:
    """Protocol -> a group, and a function by which a member consumes all available messages and returns their number."""
    puller = Consumer(world, "pulls", "pulling", TOPIC)
    popper = Consumer(world, "pops", "popping", TOPIC)
    receiver = Receiver(world, "receives", "receiving", TOPIC)

    def pull() -> int:
        count = 0
        for queue in range(QUEUES):
            at = max(0, puller.position(queue))
            got = len(puller.drain(queue, at))
            puller.commit(queue, at + got)
            count += got
        return count

    def pop() -> int:
        found = popper.pop()
        assert [popper.ack(one) for one in found] == [0] * len(found)
        return len(found)

    def receive() -> int:
        found = receiver.receive()
        assert [receiver.ack(one) for one in found] == [20_000] * len(found)
        return len(found)

    return {"pulling": ("pulls", pull), "popping": ("pops", pop), "receiving": ("receives", receive)}


def test_rates_and_totals_over_two_midnights_are_what_went_by() -> None:
    world, tool = up(261)
    sender, ways = Sender(world, "p"), each_way(world)
    world.clock.run_for(1_000)
    put, size = Truth(world), Truth(world)
    got = {group: Truth(world) for group in ways}
    before = figures(tool)
    base_put, base_got = int(before["msgPutTotalTodayNow"]), int(before["msgGetTotalTodayNow"])
    assert base_got == 0
    mornings: list[tuple[int, int]] = []
    day = world.clock.wall_ms() // DAY_MS
    for turn in range(32):
        for _ in range(world.chance.randrange(6)):
            answer = sender.send(TOPIC, b"." * world.chance.randrange(900), queue=world.chance.randrange(QUEUES))
            put.note()
            (record,) = tool.by_offset_id(answer["msgId"])
            size.note(len(record.data))
            world.clock.run_for(world.chance.uniform(0, 40_000))
        for group, (_, take) in ways.items():
            count = take()
            got[group].note(count)
        check(world, tool, put, size, got)
        counted = figures(tool)
        assert int(counted["msgPutTotalTodayNow"]) == base_put + put.since(0)
        assert int(counted["msgGetTotalTodayNow"]) == sum(truth.since(0) for truth in got.values())
        if turn == 20:
            # The rest of the day passes on the wall clock only: rates are measured on the monotonic clock.
            world.clock.step_wall((day + 1) * DAY_MS - world.clock.wall_ms() - 30 * MINUTE_MS)
        wait_ms = world.chance.choice((20_000, 4 * MINUTE_MS, 15 * MINUTE_MS))
        until_midnight_ms = (day + 1) * DAY_MS - world.clock.wall_ms()
        if wait_ms >= until_midnight_ms - 20_000:
            mornings.append((base_put + put.since(0), sum(truth.since(0) for truth in got.values())))
            world.clock.run_for(until_midnight_ms + 11_000)
            day += 1
            found = figures(tool)
            assert (int(found["msgPutTotalTodayMorning"]), int(found["msgGetTotalTodayMorning"])) == mornings[-1]
            yesterday = mornings[-2] if len(mornings) > 1 else (0, 0)
            assert (int(found["msgPutTotalYesterdayMorning"]), int(found["msgGetTotalYesterdayMorning"])) == yesterday
        else:
            world.clock.run_for(wait_ms)
    assert len(mornings) == 2


def check(world: World, tool: Tool, put: Truth, size: Truth, got: dict[str, Truth]) -> None:
    """Check that sums cover their period and at most one slot more, and that rates are sums divided by the period."""
    asked = [("TOPIC_PUT_NUMS", TOPIC, put), ("TOPIC_PUT_SIZE", TOPIC, size)]
    asked += [("GROUP_GET_NUMS", f"{TOPIC}@{group}", truth) for group, truth in got.items() if truth.since(0)]
    if not put.events:
        return
    for name, key, truth in asked:
        found = rates(tool, name, key)
        for part, last_ms, slot_ms in (
            ("statsMinute", MINUTE_MS, 10_000), ("statsHour", HOUR_MS, 10 * MINUTE_MS), ("statsDay", DAY_MS, HOUR_MS),
        ):  # fmt: skip
            row = found[part]
            assert truth.fits(int(row["sum"]), last_ms, slot_ms), (name, key, part, row, truth.events)
            up_s = world.clock.monotonic_ns() / 1e9
            shortest, longest = min(up_s - 2, last_ms / 1000), min(up_s, (last_ms + slot_ms) / 1000)
            assert row["sum"] / longest - 1e-9 <= row["tps"] <= row["sum"] / shortest + 1e-9, (name, part, row)


@FAULTS
def test_topic_and_group_are_as_far_as_their_clients_know(faults: str) -> None:
    """Ends, positions, differences and times by queue. A restart does not change them: they are computed, not counted."""
    world, tool = up(262)
    sender, ways = Sender(world, "p"), each_way(world)
    ends, newest = [0] * QUEUES, [0] * QUEUES
    behind = dict.fromkeys(ways, 0)
    for turn in range(24):
        for _ in range(world.chance.randrange(5)):
            queue = world.chance.randrange(QUEUES)
            sender.send(TOPIC, b"body", queue=queue)
            ends[queue] += 1
            newest[queue] = world.clock.wall_ms()
            behind = {group: count + 1 for group, count in behind.items()}
            world.clock.run_for(world.chance.uniform(0, 2_000))
        group = world.chance.choice(list(ways))
        assert ways[group][1]() == behind[group]
        behind[group] = 0
        if faults != "none" and turn % 6 == 5:
            world.again(power=faults == "power")
        stored = queues(tool.call(codes.GET_TOPIC_STATS, {"topic": TOPIC}).body)
        for queue in range(QUEUES):
            row = stored[TOPIC, queue]
            assert (row["minOffset"], row["maxOffset"]) == (0, ends[queue])
            assert abs(row["lastUpdateTimestamp"] - newest[queue]) < 100
        for name, count in behind.items():
            rows = progress(tool, name) if any(ends) else {}
            told = [row["brokerOffset"] - row["consumerOffset"] for row in rows.values()]
            assert sum(told) == count or (not rows and count == sum(ends)), (name, rows)
            assert all(row["brokerOffset"] == ends[queue] for queue, row in rows.items())


def test_the_backlog_of_all_groups_is_the_sum_of_them() -> None:
    world, tool = up(263)
    sender, ways = Sender(world, "p"), each_way(world)
    for number in range(12):
        sender.send(TOPIC, b"%d" % number, queue=number % QUEUES)
    for _, take in ways.values():
        assert take() == 12
    for number in range(5):
        sender.send(TOPIC, b"%d" % number, queue=0)
    world.again()
    answer = tool.call(codes.GET_BACKLOG, {"isOrder": "false"})
    assert re.search(rb'"totalDiff":(\d+)', answer.body).group(1) == b"15"  # type: ignore[union-attr]
    for group in ways:
        assert b'"%b":[' % group.encode() in answer.body


@FAULTS
def test_spans_and_the_oldest_message(faults: str) -> None:
    """The lag of a group in time and the time of the oldest message, before and after retention."""
    world, tool = up(264)
    started_ms = world.clock.wall_ms()
    sender, consumer = Sender(world, "p"), Consumer(world, "c", "g", TOPIC)
    times: list[int] = []
    for number in range(6):
        sender.send(TOPIC, b"%d" % number, queue=0)
        times.append(world.stored(TOPIC, 1)[0][-1].store_ms)
        world.clock.run_for(MINUTE_MS)
    assert bodies(consumer.drain(0)) == [str(number) for number in range(6)]
    consumer.commit(0, 2)
    world.disturb(faults)
    spans = json.loads(tool.call(codes.GET_TIME_SPANS, {"topic": TOPIC, "group": "g"}).body)["consumeTimeSpanSet"]
    (span,) = (each for each in spans if each["messageQueue"]["queueId"] == 0)
    assert (span["minTimeStamp"], span["maxTimeStamp"], span["consumeTimeStamp"]) == (times[0], times[5], times[1])
    assert abs(span["delayTime"] - (world.clock.wall_ms() - times[2])) < 100
    assert abs(int(figures(tool)["earliestMessageTimeStamp"]) - started_ms) < 100, "the node's own first records"
    world.clock.stall(80 * HOUR_MS)
    world.clock.run_for(30_000)
    assert int(figures(tool)["earliestMessageTimeStamp"]) > times[5]
