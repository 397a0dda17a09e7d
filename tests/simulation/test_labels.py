"""Ids, keys, tags and user properties on a whole node: written over one protocol, they are read over all others."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from domain.message.record import Record
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.http_caller import HttpCaller
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
USER = {"colour": "red", "größe": "groß", "n": "1", "sentence": "with blanks, and = signs"}
FAULTS = pytest.mark.parametrize("faults", ["none", "kill", "power"])

Labels = tuple[str, str, list[str], dict[str, str]]
"""Id, tag, keys, user properties."""


def of_record(record: Record) -> Labels:
    """The labels of a record, as remoting clients read them."""
    found = properties.decode(record.properties)
    return found["UNIQ_KEY"], found["TAGS"], found["KEYS"].split(), {name: found[name] for name in USER}


def of_message(message: pb.Message) -> Labels:
    """The labels of a message, as gRPC clients read them."""
    system = message.system_properties
    assert set(message.user_properties) == set(USER), "no other property is a user's"
    return system.message_id, system.tag, list(system.keys), dict(message.user_properties)


@FAULTS
@pytest.mark.parametrize("by", ["remoting", "grpc"])
def test_labels_are_the_same_for_every_protocol(by: str, faults: str) -> None:
    world = World.started(311)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    if by == "remoting":
        Sender(world, "p").send(TOPIC, b"body", 0, 0, UNIQ_KEY="REMOTING1", TAGS="t", KEYS="k1", **USER)
        sent = "REMOTING1"
    else:
        sent = Publisher(world, "g", TOPIC).send("body", pb.NORMAL, "", "t", "k1", **USER).message_id
    wanted: Labels = (sent, "t", ["k1"], USER)
    world.disturb(faults)
    (pulled,) = Consumer(world, "c", "pulls", TOPIC, expression="t || other").drain(0)
    (popped,) = Consumer(world, "d", "pops", TOPIC, expression="colour = 'red' AND n = 1", kind="SQL92").pop()
    (message,) = Receiver(world, "r", "receives", TOPIC, expression="t").receive()
    (document,) = HttpCaller(world).receive("asks", TOPIC)
    (found,) = tool.by_key(TOPIC, "k1")
    assert [of_record(record) for record in (pulled, popped.record, found)] == [wanted] * 3
    assert of_message(message) == wanted
    assert (document["id"], document["tag"], document["key"], document["properties"]) == (sent, "t", "k1", USER)
    assert bodies(tool.by_key(TOPIC, sent, unique=True)) == ["body"]
    assert Consumer(world, "e", "others", TOPIC, expression="other").drain(0) == []


@FAULTS
def test_labels_stay_with_a_message_that_comes_again_or_late(faults: str) -> None:
    """A retry, a timer and a dead letter keep the labels."""
    world = World.started(312)
    tool, sender = Tool(world, "tool"), Sender(world, "p")
    tool.topic(TOPIC, 1)
    tool.group("g", retryMaxTimes=1)
    sender.send(TOPIC, b"late", 0, 0, UNIQ_KEY="LATE", TAGS="t", KEYS="k1 k2", TIMER_DELAY_MS="60000", **USER)
    world.disturb(faults)
    world.clock.run_for(61_000)
    consumer = Consumer(world, "c", "g", TOPIC, expression="t")
    (record,) = consumer.drain(0)
    assert of_record(record) == ("LATE", "t", ["k1", "k2"], USER)
    for retry in ("%RETRY%g", "%DLQ%g"):
        assert consumer.give_back(record, level=1) == 0
        world.disturb(faults)
        world.clock.run_for(1_500)
        (record,) = consumer.drain(0, 0, retry)
        assert of_record(record)[1:] == ("t", ["k1", "k2"], USER)
        assert "LATE" in (properties.decode(record.properties)[name] for name in ("ORIGIN_MESSAGE_ID", "UNIQ_KEY"))
    assert bodies(tool.by_key("%DLQ%g", "k2")) == ["late"]
