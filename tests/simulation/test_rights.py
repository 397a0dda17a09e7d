"""Rights on a whole node, over gRPC and MQTT: by topic, group and source address; waiting requests when they are revoked."""

from __future__ import annotations

import pytest

from domain.limits import MILLISECOND_NS, SECOND_NS
from gateway.node.settings import Config
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from tests.simulation.channel import Channel
from tests.simulation.client import PUBACK, MqttClient
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
HERE, ELSEWHERE = "10.0.0.7", "10.9.9.9"


class Alice(Channel):
    """A gRPC client of alice without settings: a poll may arrive before the settings."""

    user, password = "alice", "secret"

    def send(self) -> int:
        message = pb.Message(body=b"body")
        message.topic.name = TOPIC
        message.system_properties.message_id = "0" * 16
        message.system_properties.message_type = pb.NORMAL
        answer = self.call("SendMessage", pb.SendMessageRequest(messages=[message]), pb.SendMessageResponse)
        return int(answer.status.code)

    def receive(self, topic: str = TOPIC, wait_s: int = 5) -> int:
        """Poll for at most `wait_s` seconds. Returns the code of the answer."""
        request = pb.ReceiveMessageRequest(batch_size=32)
        request.group.name, request.message_queue.topic.name, request.message_queue.id = GROUP, topic, -1
        request.filter_expression.expression = "*"
        request.long_polling_timeout.seconds, request.invisible_duration.seconds = wait_s, 30
        told = self.stream("ReceiveMessage", request, pb.ReceiveMessageResponse)
        return next(int(each.status.code) for each in told if each.HasField("status"))


class AliceOverMqtt(MqttClient):
    """An MQTT client of alice."""

    user, password = "alice", b"secret"

    def publish_code(self, path: str) -> int:
        found = self.ask(Publish(path.encode(), b"body", 1, False, False, 7, NONE), Ack)
        assert isinstance(found, Ack)
        assert found.kind == PUBACK
        return found.code

    def subscribe_code(self, pattern: str) -> int:
        found = self.ask(Subscribe(9, [(pattern, 1)], NONE), Suback)
        assert isinstance(found, Suback)
        return found.codes[0]


def _posted(tool: Tool, fields: dict[str, str]) -> None:
    tool.post(codes.DELETE_ACL, fields)


class Rights:
    """A node with access control, its administrator, and a user without rights."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, Config(admin="root:wonderland"))
        self.world.start()
        self.root = Tool(self.world, "root", "root", "wonderland")
        self.root.topic(TOPIC, 1)
        self.root.topic("other", 1)
        self.root.group(GROUP)
        user = {"username": "alice", "password": "secret", "userType": "Normal"}
        self.root.done(codes.CREATE_USER, {"username": "alice"}, user)

    def grant(self, sources: list[str], *resources: str, code: int = codes.CREATE_ACL) -> None:
        """Grant alice all actions on the resources, from the given addresses."""
        entry = {"resource": list(resources), "actions": ["Pub", "Sub"], "sourceIps": sources, "decision": "Allow"}
        body = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        self.root.done(code, {"subject": "User:alice"}, body)

    def revoke(self, resource: str) -> None:
        """Revoke alice's rights to the resource."""
        self.root.done(codes.DELETE_ACL, {"subject": "User:alice", "resource": resource, "policyType": "Custom"})

    def revoke_later(self, what: str) -> None:
        """Revoke a right in 3 s."""
        clock = self.world.clock
        tool = self.root
        fields = {"subject": "User:alice", "resource": what, "policyType": "Custom"}
        clock.call_at(clock.monotonic_ns() + 3 * SECOND_NS, lambda: _posted(tool, fields))


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_grpc_sends_and_receives_what_is_granted_from_where_it_is_granted(faults: str) -> None:
    rights = Rights(121)
    alice = Alice(rights.world, "alice")

    assert (alice.send(), alice.receive()) == (pb.UNAUTHORIZED, pb.UNAUTHORIZED)
    rights.grant([ELSEWHERE], f"Topic:{TOPIC}", f"Group:{GROUP}")
    rights.world.disturb(faults)
    assert (alice.send(), alice.receive()) == (pb.UNAUTHORIZED, pb.UNAUTHORIZED), "not from here"
    rights.grant([ELSEWHERE, f"{HERE}/32"], f"Topic:{TOPIC}", f"Group:{GROUP}", code=codes.UPDATE_ACL)
    rights.world.disturb(faults)
    assert (alice.send(), alice.receive()) == (pb.OK, pb.OK)
    rights.revoke(f"Group:{GROUP}")
    rights.world.disturb(faults)
    assert (alice.send(), alice.receive()) == (pb.OK, pb.UNAUTHORIZED)
    rights.revoke(f"Topic:{TOPIC}")
    rights.world.disturb(faults)
    assert alice.send() == pb.UNAUTHORIZED
    alice.password = "guess"
    assert alice.send() == pb.UNAUTHORIZED
    assert rights.world.end(TOPIC, 0) == 2


def test_a_poll_that_overtakes_its_settings_needs_the_topic_too() -> None:
    """A right to the group alone does not give messages."""
    rights = Rights(122)
    rights.grant([], f"Topic:{TOPIC}", f"Group:{GROUP}")
    alice = Alice(rights.world, "alice")
    assert alice.receive("other") == pb.UNAUTHORIZED
    assert alice.receive() == pb.MESSAGE_NOT_FOUND


@pytest.mark.parametrize("what", [f"Topic:{TOPIC}", f"Group:{GROUP}"])
def test_a_grpc_poll_ends_with_the_right_to_it(what: str) -> None:
    rights = Rights(123)
    rights.grant([], f"Topic:{TOPIC}", f"Group:{GROUP}")
    alice = Alice(rights.world, "alice")
    rights.revoke_later(what)
    begun = rights.world.clock.monotonic_ns()
    assert alice.receive(wait_s=20) == pb.UNAUTHORIZED
    assert rights.world.clock.monotonic_ns() - begun < 4_000 * MILLISECOND_NS


def test_a_notification_poll_ends_with_the_right_to_it() -> None:
    rights = Rights(124)
    rights.grant([], f"Topic:{TOPIC}", f"Group:{GROUP}")
    alice = Tool(rights.world, "alice", "alice", "secret")
    rights.revoke_later(f"Topic:{TOPIC}")
    begun = rights.world.clock.monotonic_ns()
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "pollTime": "20000",
        "bornTime": str(rights.world.clock.wall_ms()),
    }  # fmt: skip
    assert alice.call(codes.NOTIFICATION, fields).code == codes.NO_PERMISSION
    assert rights.world.clock.monotonic_ns() - begun < 4_000 * MILLISECOND_NS


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_mqtt_publishes_and_subscribes_what_is_granted_from_where_it_is_granted(faults: str) -> None:
    rights = Rights(125)

    def codes_of(name: str) -> tuple[int, int, int]:
        rights.world.disturb(faults)
        client = AliceOverMqtt(rights.world, name)
        client.connect(clean=True, expiry_s=0)
        published = client.publish_code(f"{TOPIC}/a")
        return published, client.subscribe_code(f"{TOPIC}/#"), client.subscribe_code(f"$share/{GROUP}/{TOPIC}/#")

    assert codes_of("a") == (0x87, 0x87, 0x87)
    rights.grant([ELSEWHERE], f"Topic:{TOPIC}", f"Group:{GROUP}")
    assert codes_of("b") == (0x87, 0x87, 0x87), "not from here"
    rights.grant([f"{HERE}/32"], f"Topic:{TOPIC}", code=codes.UPDATE_ACL)
    rights.revoke(f"Group:{GROUP}")
    assert codes_of("c") == (0, 1, 0x87), "not as a member of the group"
    rights.grant([f"{HERE}/32"], f"Topic:{TOPIC}", f"Group:{GROUP}", code=codes.UPDATE_ACL)
    assert codes_of("d") == (0, 1, 1)
    assert rights.world.end(TOPIC, 0) == 2
