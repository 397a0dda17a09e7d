"""The latest value that an SDK's message sets by its property `mqttRetain`: retained for MQTT clients that subscribe later."""

from __future__ import annotations

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from tests.simulation.client import MqttClient
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher
from tests.simulation.transactor import COMMIT, ROLLBACK
from tests.simulation.world import World
from tests.stored_state import pairs

TOPIC = "room"
SET = {"mqttRetain": "true"}


@pytest.fixture
def world() -> World:
    made = World.started(72)
    made.clock.run_for(200)
    Sender(made, "maker").send(TOPIC, b"first")
    return made


def retained(world: World, pattern: str = f"{TOPIC}/#") -> list[tuple[bytes, bytes, bool]]:
    """(topic, body, RETAIN) of what a new subscriber is given."""
    client = MqttClient(world, f"late-{world.clock.wall_ms()}")
    client.connect(clean=True)
    client.subscribe(pattern)
    world.clock.run_for(200)
    found = [(packet.topic, packet.body, packet.retain) for packet in client.taken]
    client.leave()
    return found


def test_a_message_by_remoting_is_retained_and_outlives_a_crash(world: World) -> None:
    sender = Sender(world, "p")
    sender.send(TOPIC, b"plain")
    sender.send(TOPIC, b"off", mqttRetain="false")
    assert retained(world) == []
    for body in (b"one", b"two", b"three"):  # the header of the second and third is cached
        sender.send(TOPIC, body, mqttRetain="true")
        assert retained(world) == [(TOPIC.encode(), body, True)]
    sender.send(TOPIC, b"below", originMqttTopic=f"{TOPIC}/1", mqttRetain="true")
    world.again(power=True)
    assert retained(world) == [(b"room", b"three", True), (b"room/1", b"below", True)]


def test_a_message_by_grpc_is_retained(world: World) -> None:
    def fill(message: pb.Message) -> None:
        message.user_properties.update(SET)

    assert Publisher(world, "p", TOPIC).send_message(b"grpc", pb.NORMAL, fill).status.code == pb.OK
    assert retained(world) == [(b"room", b"grpc", True)]


def test_a_copy_for_a_retry_sets_nothing(world: World) -> None:
    sender = Sender(world, "p")
    sender.post(codes.HEARTBEAT, {}, b"{}")
    sender.begin("%RETRY%g", b"again", mqttRetain="true")
    world.clock.run_for(500)
    assert world.parts is not None
    assert pairs(world.parts.store.state, "latest") == []


@pytest.mark.parametrize("killed", [False, True])
def test_half_of_a_transaction_is_retained_when_it_is_committed(world: World, killed: bool) -> None:
    sender = Sender(world, "p")
    sender.send(TOPIC, b"before", mqttRetain="true")
    undone, half = sender.half(TOPIC, "undone", mqttRetain="true"), sender.half(TOPIC, "half", **SET)
    assert retained(world) == [(b"room", b"before", True)]
    if killed:
        world.again(power=True)
        sender = Sender(world, "q")
    assert sender.end(undone, ROLLBACK) == 0
    assert sender.end(half, COMMIT) == 0
    assert retained(world) == [(b"room", b"half", True)]
    if killed:
        world.again(power=True)
    assert retained(world) == [(b"room", b"half", True)]
    stored = [record for queue in world.stored(TOPIC, 8) for record in queue]
    assert all(b"HG_LATEST" not in record.properties for record in stored)
