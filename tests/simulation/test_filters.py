"""Filters on a whole node: the same messages by tag and by SQL92, pulling, popping and over gRPC, before and after a kill."""

from __future__ import annotations

import pytest

from tests.simulation.caller import bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.simple import Receiver, said
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 3

MESSAGES: dict[str, dict[str, str]] = {
    "plain": {},
    "red": {"TAGS": "red", "colour": "red", "size": "5"},
    "green": {"TAGS": "green", "colour": "green", "size": "10", "rush": "TRUE"},
    "blue": {"TAGS": "blue", "colour": "blue", "size": "15.5"},
    "text": {"TAGS": "text", "colour": "dark red", "size": "big"},
    # Java's String.hashCode is the same for both tags: only the text differs.
    "AaAa": {"TAGS": "AaAa"},
    "BBBB": {"TAGS": "BBBB"},
}
TAGS = {
    "*": set(MESSAGES),
    "red": {"red"},
    " red || green ": {"red", "green"},
    "none": set(),
}
SQL = {
    "colour = 'red'": {"red"},
    "colour <> 'red'": {"green", "blue", "text"},
    "colour IS NULL": {"plain", "AaAa", "BBBB"},
    "colour IN ('red', 'blue')": {"red", "blue"},
    "size > 5.0": {"green", "blue"},
    "size BETWEEN 5 AND 10": {"red", "green"},
    "TAGS = 'red' AND size = 5": {"red"},
    "missing = 1 OR colour = 'red'": {"red"},
}
CASES = [("TAG", each, want) for each, want in TAGS.items()] + [("SQL92", each, want) for each, want in SQL.items()]


@pytest.fixture(scope="module")
def world(distance: None) -> World:
    """A node with the messages that was killed once after they were sent."""
    made = World.started(71)
    Tool(made, "tool").topic(TOPIC, QUEUES)
    sender = Sender(made, "p")
    for name, pairs in MESSAGES.items():
        sender.send(TOPIC, name.encode(), -1, 0, **pairs)
    made.again()
    return made


@pytest.mark.parametrize(("kind", "expression", "wanted"), CASES)
def test_all_ways_select_the_same(world: World, kind: str, expression: str, wanted: set[str]) -> None:
    number = CASES.index((kind, expression, wanted))
    puller = Consumer(world, f"pull{number}", f"pull{number}", TOPIC, expression=expression, kind=kind)
    found = [text for queue in range(QUEUES) for text in bodies(puller.drain(queue))]
    # A RocketMQ broker compares the hash codes of tags and clients compare the text; Headgate compares the text too.
    assert sorted(found) == sorted(wanted)
    popper = Consumer(world, f"pop{number}", f"pop{number}", TOPIC, expression=expression, kind=kind)
    popped: list[str] = []
    while some := popper.pop(most=4):
        popped += [one.body for one in some]
    assert sorted(popped) == sorted(wanted)
    receiver = Receiver(world, f"grpc{number}", f"grpc{number}", TOPIC, expression=expression, sql=kind == "SQL92")
    received: list[str] = []
    while messages := said(receiver.receive()):
        received += messages
    assert sorted(received) == sorted(wanted)
    for client in (puller, popper, receiver):
        client.hang_up()
