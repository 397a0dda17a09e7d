"""Retries on a whole node: delays, number of attempts, and dead letters; with kills and power failures."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "sim-retries"
EXPONENTIAL = {
    "type": "EXPONENTIAL",
    "exponentialRetryPolicy": {"initial": 2_000, "max": 10_000, "multiplier": 2},
}
CUSTOMIZED = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [100, 200, 3_000, 7_000, 20_000]}}
POLICIES = {
    "exponential": (EXPONENTIAL, [2_000, 4_000, 8_000, 10_000]),
    # The server uses the list from its third step on.
    "customized": (CUSTOMIZED, [3_000, 7_000, 20_000, 20_000]),
    "default": (None, [10_000, 30_000, 60_000, 120_000]),
}
RETRIES = 4


def world_with(seed: int, policy: object, **group: object) -> tuple[World, Sender, Consumer, Tool]:
    """A node with the topic and the group, and one client of each kind."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    tool.group(GROUP, retryMaxTimes=RETRIES, **({"groupRetryPolicy": policy} if policy else {}), **group)
    return world, Sender(world, "p"), Consumer(world, "c", GROUP, TOPIC), tool


def dead(world: World, consumer: Consumer) -> list[dict[str, str]]:
    """The messages of the group's dead-letter topic: properties, and the body under ""."""
    found = consumer.drain(0, topic=f"%DLQ%{GROUP}")
    return [{"": record.body.decode(), **properties.decode(record.properties)} for record in found]


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("policy", POLICIES)
def test_sent_back_it_waits_by_the_policy_and_ends_as_a_dead_letter(policy: str, faults: str) -> None:
    told, delays = POLICIES[policy]
    world, sender, consumer, _ = world_with(21, told)
    sender.send(TOPIC, b"poison", UNIQ_KEY="ORIGIN", KEYS="k", colour="red")
    (record,) = consumer.drain(0)
    retry = f"%RETRY%{GROUP}"
    for times, delay in enumerate(delays):
        assert record.reconsume_times == times
        asked_ms = world.clock.wall_ms()
        assert consumer.give_back(record) == 0
        given_ms = world.clock.wall_ms()
        world.disturb(faults)
        world.clock.run_for(delay - 500 - (world.clock.wall_ms() - given_ms))
        assert len(consumer.drain(0, times, retry)) == 0, "early"
        world.clock.run_for(600)
        (record,) = consumer.drain(0, times, retry)
        assert asked_ms + delay <= record.store_ms <= given_ms + delay + 110
    assert consumer.give_back(record) == 0
    world.clock.run_for(200_000)
    assert len(consumer.drain(0, 0, retry)) == RETRIES
    (letter,) = dead(world, consumer)
    assert letter[""] == "poison"
    assert letter["colour"] == "red"
    assert letter["KEYS"] == "k"
    assert letter["DLQ_ORIGIN_TOPIC"] == TOPIC
    assert letter["DLQ_ORIGIN_MESSAGE_ID"] == "ORIGIN"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_popped_and_given_back_or_left_it_comes_again_and_ends_as_a_dead_letter(seed: int, faults: str) -> None:
    """Each delivery is nacked, extended, or left to expire; the next delivery comes when the lease has ended, not before."""
    world, sender, consumer, _ = world_with(seed, EXPONENTIAL)
    sender.send(TOPIC, b"poison", UNIQ_KEY="ORIGIN")
    times = 0
    while True:
        found = consumer.pop(wait_ms=100, invisible_ms=3_000)
        if not found:
            break
        taken_ms = world.clock.wall_ms()
        (one,) = found
        assert one.record.reconsume_times == times
        times += 1
        how = world.chance.choice(("left", "nacked", "extended"))
        wait_ms = {"left": 3_000, "nacked": 2_000, "extended": 8_000}[how]
        if how == "nacked":
            assert consumer.change(one, 2_000) == 0
        elif how == "extended":
            assert consumer.change(one, 8_000) == 0
        if faults != "none":
            # A lease is not synced before it is answered: after a power failure it may be lost, and the message comes earlier.
            world.clock.run_for(600)
            world.again(power=faults == "power")
        world.clock.run_for(wait_ms - 400 - (world.clock.wall_ms() - taken_ms))
        assert consumer.pop() == [], f"{how}, early"
        world.clock.run_for(800)
    assert times == RETRIES + 1
    (letter,) = dead(world, consumer)
    assert letter["DLQ_ORIGIN_TOPIC"] == TOPIC
    assert letter["DLQ_ORIGIN_MESSAGE_ID"] == "ORIGIN"
    assert world.position(GROUP, TOPIC, 0) == 1


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_what_an_orderly_consumer_gives_up_is_a_dead_letter_at_once(faults: str) -> None:
    """The client retries by itself under its lock, then sends to the retry topic: a dead letter while the group has a lock."""
    world, sender, consumer, _ = world_with(25, None)
    sender.send(TOPIC, b"stuck", UNIQ_KEY="ORIGIN")
    assert consumer.lock([0]) == [0]
    (record,) = consumer.drain(0)
    sender.send(
        f"%RETRY%{GROUP}", record.body, -1, 0, UNIQ_KEY="ORIGIN", RETRY_TOPIC=TOPIC, ORIGIN_MESSAGE_ID="ORIGIN", DELAY="3"
    )
    world.disturb(faults)
    world.clock.run_for(60_000)
    assert consumer.drain(0, topic=f"%RETRY%{GROUP}") == []
    (letter,) = dead(world, consumer)
    assert (letter[""], letter["DLQ_ORIGIN_TOPIC"], letter["DLQ_ORIGIN_MESSAGE_ID"]) == ("stuck", TOPIC, "ORIGIN")
