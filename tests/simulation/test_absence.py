"""Disconnected MQTT clients of a whole node: sessions, wills and messages expire at their second, retained values stay."""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from protocols.mqtt.connect import Will
from protocols.mqtt.property import NONE
from tests.simulation.client import NEVER_S, MqttClient, numbers
from tests.simulation.consumer import Consumer
from tests.simulation.world import World

DAY_S = 86_400
FAULTS = pytest.mark.parametrize("faults", ["none", "kill", "power"])


@FAULTS
@pytest.mark.parametrize("expiry_s", [1, 60, 30 * DAY_S])
def test_a_session_ends_at_its_second(faults: str, expiry_s: int) -> None:
    world = World.started(121)
    client = MqttClient(world, "c")
    assert not client.connect(expiry_s=expiry_s)
    client.subscribe("room/#")
    for wait_ms, present in ((expiry_s * 1000 - 600, True), (expiry_s * 1000 + 1_500, False)):
        left_ms = world.clock.wall_ms()
        client.drop()
        world.clock.run_for(100)
        world.disturb(faults)
        away_ms = wait_ms - (world.clock.wall_ms() - left_ms)
        if away_ms > 120_000:
            # A month without a connection: the clock jumps, and the node is up for the last minute.
            world.kill(power=False)
            world.clock.step_wall(away_ms - 60_000)
            away_ms = 60_000
            world.start()
        world.clock.run_for(away_ms)
        assert client.connect(expiry_s=expiry_s) is present


@FAULTS
def test_a_session_that_never_ends_has_its_messages_a_year_later(faults: str) -> None:
    world = World.started(122, Config(tables={"mqtt": {"session_expiry_max_s": NEVER_S}}))
    client, other = MqttClient(world, "c"), MqttClient(world, "o")
    client.connect(expiry_s=NEVER_S)
    client.subscribe("room/#")
    client.leave()
    other.connect()
    world.kill(power=faults == "power")
    world.clock.step_wall(360 * DAY_S * 1000)
    world.start()
    other.connect()
    other.publish("room/1", b"after a year")
    world.disturb(faults)
    assert client.connect()
    assert client.take() == [b"after a year"]


@FAULTS
def test_a_will_is_published_after_its_delay_and_not_when_the_client_is_back(faults: str) -> None:
    world = World.started(123)
    listener = MqttClient(world, "listener")
    listener.connect()
    listener.subscribe("wills/#")
    for back in (False, True):
        client = MqttClient(world, f"c{back}")
        client.connect(will=Will("wills/c", b"gone", 1, False, numbers(will_delay=20)))
        left_ms = world.clock.wall_ms()
        client.drop()
        world.disturb(faults)
        if listener.link is None:
            listener.connect()
        world.clock.run_for(19_000 - (world.clock.wall_ms() - left_ms))
        assert listener.take() == [], "early"
        if back:
            client.connect()
        world.clock.run_for(3_000)
        assert listener.take() == ([] if back else [b"gone"])


@FAULTS
def test_retained_values_are_there_for_who_comes_later(faults: str) -> None:
    world = World.started(124)
    writer = MqttClient(world, "w")
    writer.connect()
    for name in ("kept", "changed", "cleared", "short"):
        writer.publish(f"room/{name}", name.encode(), retain=True, expiry_s=60 if name == "short" else 0)
    writer.publish("room/changed", b"new", retain=True)
    writer.publish("room/cleared", b"", retain=True)
    world.disturb(faults)
    reader = MqttClient(world, "r1")
    reader.connect(clean=True)
    reader.subscribe("room/#")
    assert sorted(reader.take()) == [b"kept", b"new", b"short"]
    world.clock.run_for(61_000)
    world.disturb(faults)
    late = MqttClient(world, "r2")
    late.connect(clean=True)
    late.subscribe("room/#")
    assert sorted(late.take()) == [b"kept", b"new"], "one has expired"


@FAULTS
def test_messages_expire_for_sessions_and_for_groups(faults: str) -> None:
    """Messages are delivered with their remaining lifetime until they expire, and not afterwards."""
    world = World.started(125)
    session, writer = MqttClient(world, "s"), MqttClient(world, "w")
    session.connect()
    session.subscribe("room/#")
    session.leave()
    writer.connect()
    for name, expiry_s in (("short", 10), ("long", 100), ("ever", 0)):
        writer.publish("room/1", name.encode(), expiry_s=expiry_s)
    early = Consumer(world, "early", "early", "room")
    assert sorted(one.body for one in early.pop()) == ["ever", "long", "short"]
    world.disturb(faults)
    world.clock.run_for(11_000)
    assert session.connect()
    assert session.take() == [b"long", b"ever"]
    late = Consumer(world, "late", "late", "room")
    assert sorted(one.body for one in late.pop()) == ["ever", "long"]
    world.clock.run_for(100_000)
    last = Consumer(world, "last", "last", "room")
    assert [one.body for one in last.pop()] == ["ever"]


def test_a_will_without_delay_when_the_link_breaks_and_none_after_goodbye() -> None:
    world = World.started(126)
    listener = MqttClient(world, "listener")
    listener.connect()
    listener.subscribe("wills/#")
    for goodbye in (False, True):
        client = MqttClient(world, f"c{goodbye}")
        client.connect(will=Will("wills/c", b"gone", 1, False, NONE))
        client.leave() if goodbye else client.drop()
        assert listener.take() == ([] if goodbye else [b"gone"])
