"""Sending to a whole node: batches are stored whole or not at all, bodies are unchanged, requests get their replies."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from protocols.remoting import codes
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.simulation.caller import Caller, bodies
from tests.simulation.consumer import Consumer
from tests.simulation.sender import Sender
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 4


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", range(12))
def test_a_batch_is_there_whole_or_not_at_all(seed: int, power: bool) -> None:
    """The node is killed while batches are in flight; an acknowledged batch is stored."""
    world = World.started(seed)
    Tool(world, "tool").topic(TOPIC, QUEUES)
    sender = Sender(world, "p")
    acknowledged: set[int] = set()
    for number in range(24):
        texts = [b"%d/%d" % (number, at) + b"." * world.chance.randrange(900) for at in range(8)]
        opaque = sender.batch(TOPIC, texts, queue=number % QUEUES)
        if number % 4 == 3:
            world.clock.run_for(world.chance.uniform(0, 12))
            answer = sender.answer(opaque)
            world.again(power)
        else:
            world.clock.run_for(60)
            answer = sender.answer(opaque)
        if answer is not None and answer.code == 0:
            acknowledged.add(number)
            assert len((answer.fields() or {})["msgId"].split(",")) == 8
    found: dict[int, list[int]] = {}
    for queue in world.stored(TOPIC, QUEUES):
        for text in bodies(queue):
            number, at = map(int, text.rstrip(".").split("/"))
            found.setdefault(number, []).append(at)
    assert len(acknowledged) >= 18
    assert set(found) >= acknowledged
    assert all(parts == list(range(8)) for parts in found.values()), found


LONG = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId", "f": "sysFlag",
    "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode", "m": "batch",
}  # fmt: skip
"""Names of fields in requests of the first version."""


class Service(Consumer):
    """A consumer that replies to requests."""

    def reply(self, queue: int, offset: int, text: bytes, old: bool = False) -> int:
        """Pull the request at an offset and reply to it (`old`: by code 324). Returns the code of the answer to the reply."""
        request = self.drain(queue, offset)[0]
        asked = properties.decode(request.properties)
        told = properties.encode([
            ("CORRELATION_ID", asked["CORRELATION_ID"]), ("REPLY_TO_CLIENT", asked["REPLY_TO_CLIENT"]), ("MSG_TYPE", "reply"),
            ("UNIQ_KEY", f"reply{offset}"), ("TTL", asked["TTL"]),
        ])  # fmt: skip
        fields = {
            "a": self.group, "b": f"{asked['CLUSTER']}_REPLY_TOPIC", "c": "TBW102", "d": "4", "e": "0", "f": "0",
            "g": str(self.clock.wall_ms()), "h": "0", "i": told.decode(), "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        if old:
            return self.call(codes.SEND_REPLY, {LONG[name]: value for name, value in fields.items()}, text).code
        return self.call(codes.SEND_REPLY_V2, fields, text).code


def ask(sender: Sender, number: int) -> None:
    """Send one request message."""
    sender.send(
        TOPIC, b"q%d" % number, queue=0, MSG_TYPE="request", CORRELATION_ID=f"c{number}", REPLY_TO_CLIENT=sender.name,
        TTL="3000",
    )  # fmt: skip


def replies(sender: Sender) -> list[tuple[str, bytes]]:
    """(correlation id, body) of the replies that have arrived."""
    told = [each for each in sender.heard if each.code == codes.PUSH_REPLY and not each.flag & FLAG_RESPONSE]
    return [(properties.text((each.fields() or {})["properties"].encode(), "CORRELATION_ID"), each.body) for each in told]


def test_a_reply_reaches_its_requester_alone_and_after_a_kill_of_the_node() -> None:
    world = World.started(53)
    requester, bystander = Sender(world, "asks"), Sender(world, "waits")
    service = Service(world, "serves", "services", TOPIC)
    world.clock.run_for(100)
    ask(requester, 1)
    assert service.reply(0, 0, b"a1", old=True) == 0
    world.clock.run_for(100)
    assert replies(requester) == [("c1", b"a1")]
    ask(requester, 2)
    world.again()
    assert service.reply(0, 1, b"a2") == 0, "both have come back and said who they are"
    world.clock.run_for(100)
    assert replies(requester) == [("c1", b"a1"), ("c2", b"a2")]
    assert replies(bystander) == []


class SilentRequester(Sender):
    """A requester that does not acknowledge a reply. `leaves`: it closes the connection instead."""

    leaves = False

    def received(self, data: bytes) -> None:
        Caller.received(self, data)
        if self.leaves and replies(self):
            self.hang_up()


@pytest.mark.parametrize("leaves", [False, True], ids=["silent", "leaves"])
def test_a_requester_that_does_not_take_its_reply_is_waited_for_three_seconds_at_most(leaves: bool) -> None:
    """A reply that was not acknowledged is not stored; the next reply, to another client, arrives."""
    world = World.started(55)
    silent, other = SilentRequester(world, "deaf"), Sender(world, "other")
    silent.leaves = leaves
    service = Service(world, "serves", "services", TOPIC)
    world.clock.run_for(100)
    ask(silent, 1)
    ask(other, 2)
    before = world.clock.monotonic_ns()
    assert service.reply(0, 0, b"a1") != 0
    took_s = (world.clock.monotonic_ns() - before) / 1e9
    assert took_s < 0.1 if leaves else 3 <= took_s < 3.1
    assert service.reply(0, 1, b"a2") == 0
    world.clock.run_for(100)
    assert replies(other) == [("c2", b"a2")]
    world.again()
    (kept,) = [record for queue in world.stored("DefaultCluster_REPLY_TOPIC", 1) for record in queue]
    assert kept.body == b"a2"
