"""Who may not send to a topic is not asked about its transactions: a question has the message in it."""

from __future__ import annotations

import json

from domain.message import property as properties
from domain.message.record import Record
from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "shop"


class Producer(Tool):
    """A client that says that it is a producer of the group."""

    def said_hello(self) -> None:
        body = {"clientID": self.name, "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        self.post(codes.HEARTBEAT, {}, json.dumps(body).encode())

    def questions(self) -> list[bytes]:
        """The messages that it was asked about."""
        return [Record(each.body).body for each in self.heard if each.code == codes.CHECK_TRANSACTION]


def half(producer: Tool, body: bytes) -> None:
    """Send a half message."""
    named = properties.encode([("UNIQ_KEY", body.decode()), ("TRAN_MSG", "true"), ("PGROUP", GROUP)]).decode()
    fields = {
        "a": GROUP, "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "4", "g": "1", "h": "0", "i": named, "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    producer.done(codes.SEND_V2, fields, body)


def test_only_producers_that_may_send_are_asked() -> None:
    world = World.started(191, Config(admin="root:wonderland"))
    root = Tool(world, "root", "root", "wonderland")
    root.topic(TOPIC, 1)
    for name, actions in (("anna", ["Pub"]), ("eve", ["Sub"])):
        root.done(codes.CREATE_USER, {"username": name}, {"username": name, "password": name, "userType": "Normal"})
        entry = {"resource": [f"Topic:{TOPIC}"], "actions": actions, "sourceIps": [], "decision": "Allow"}
        policies = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        root.done(codes.CREATE_ACL, {"subject": f"User:{name}"}, policies)
    eve = Producer(world, "eve", "eve", "eve")
    world.clock.run_for(500)
    half(root, b"secret")
    world.clock.run_for(120_000)
    assert eve.questions() == [], "nobody is asked while there is nobody who may send"
    anna = Producer(world, "anna", "anna", "anna")
    world.clock.run_for(500)
    for number in range(4):
        half(anna, b"m%d" % number)
    world.clock.run_for(120_000)
    assert set(anna.questions()) == {b"secret", b"m0", b"m1", b"m2", b"m3"}
    assert eve.questions() == []


def test_every_producer_is_asked_where_access_is_not_controlled() -> None:
    world = World.started(192)
    Tool(world, "tool").topic(TOPIC, 1)
    there = Producer(world, "p")
    world.clock.run_for(500)
    half(there, b"m")
    world.clock.run_for(60_000)
    assert b"m" in there.questions()
