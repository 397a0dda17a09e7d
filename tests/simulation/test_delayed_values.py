"""The latest value of a delayed message: it is set in the commit of its delivery, whatever protocol sent it."""

from __future__ import annotations

import json

import pytest

from domain.message import property as properties
from protocols.cloudevents.instant import rfc3339
from protocols.coap.message import message as coap
from protocols.mqtt.property import Properties
from protocols.mqtt.publish import Publish
from tests.simulation.client import MqttClient
from tests.simulation.http_caller import HttpCaller
from tests.simulation.speakers import Coap
from tests.simulation.world import World
from tests.stored_state import value_of

PATH = "room/1"
DELAY_MS = 5_000


def latest(caller: HttpCaller) -> bytes:
    """The latest value of PATH, b"" when there is none."""
    status, _, body = caller.ask("GET", f"/v1/latest/{PATH}")
    assert status in (200, 404), status
    return body if status == 200 else b""


def put(caller: HttpCaller, body: bytes, due_ms: int = 0, **more: str) -> dict[str, object]:
    """Send by HTTP with mq-retain. Returns the answer."""
    fields = {"mq-retain": "true", **({"mq-deliver-at": rfc3339(due_ms).replace(":", "%3A")} if due_ms else {}), **more}
    status, _, answer = caller.ask("POST", f"/v1/topics/{PATH}/messages", body, more=fields)
    assert status == 201, answer
    found: dict[str, object] = json.loads(answer)
    return found


def delivered(world: World) -> list[bytes]:
    return [record.body for queue in world.stored("room", 8) for record in queue]


@pytest.fixture
def world() -> World:
    made = World.started(71)
    made.clock.run_for(200)
    return made


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
@pytest.mark.parametrize("at_ms", [1_000, DELAY_MS - 1, DELAY_MS, DELAY_MS + 1, DELAY_MS + 3, DELAY_MS + 40])
def test_the_value_is_set_when_the_message_is_delivered_and_with_it(world: World, faults: str, at_ms: int) -> None:
    caller = HttpCaller(world)
    put(caller, b"old")
    sent_ms = world.clock.wall_ms()
    put(caller, b"new", sent_ms + DELAY_MS)
    assert latest(caller) == b"old"
    world.clock.run_for(at_ms - (world.clock.wall_ms() - sent_ms))
    world.disturb(faults)
    for _ in range(40):
        parts = world.parts
        assert parts is not None
        value = value_of(parts.store.state, "latest", PATH.encode())
        assert value is not None
        assert (b"new" in value) == (b"new" in delivered(world)), "in one commit"
        world.clock.run_for(200)
    assert latest(caller) == b"new"
    if faults != "none":
        world.again(power=faults == "power")
        assert latest(caller) == b"new"
    assert sorted(delivered(world)) == [b"new", b"old"]
    assert all(properties.HG_LATEST_START not in record.properties for queue in world.stored("room", 8) for record in queue)


def test_retain_of_mqtt_and_put_of_coap_wait_too_and_a_delayed_removal_removes(world: World) -> None:
    caller, client, device = HttpCaller(world), MqttClient(world, "m"), Coap(world)
    client.connect()

    def publish(body: bytes, due_ms: int) -> None:
        about = Properties()
        about.user = [("deliverytime", str(due_ms))]
        client.put(Publish(PATH.encode(), body, 1, True, False, 9, about))
        world.clock.run_for(100)

    publish(b"mqtt", world.clock.wall_ms() + DELAY_MS)
    assert latest(caller) == b""
    world.clock.run_for(DELAY_MS)
    assert latest(caller) == b"mqtt"
    assert device.put(PATH, b"coap", f"delay_ms={DELAY_MS}") == coap.CHANGED
    assert latest(caller) == b"mqtt"
    world.clock.run_for(DELAY_MS + 500)
    assert latest(caller) == b"coap"
    publish(b"", world.clock.wall_ms() + DELAY_MS)
    assert latest(caller) == b"coap"
    world.clock.run_for(DELAY_MS)
    assert latest(caller) == b""
