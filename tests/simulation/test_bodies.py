"""Bodies compressed by producers, on a whole node: unchanged for protocols that know compression, plain for all others."""

from __future__ import annotations

import base64
import zlib

import lz4.frame
import pytest
import zstandard

from domain.limits import BODY_BYTES_MAX
from domain.message import property as properties
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.simulation.caller import records
from tests.simulation.client import MqttClient
from tests.simulation.consumer import Consumer
from tests.simulation.http_caller import HttpCaller
from tests.simulation.respondent import GrpcRespondent
from tests.simulation.sender import COMMIT, Sender
from tests.simulation.simple import Publisher, Receiver
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "workers"
PLAIN = b"what the application meant " * 200
KINDS = {
    "zlib": (0x301, zlib.compress(PLAIN)),
    "zlib, old": (0x1, zlib.compress(PLAIN)),
    "lz4": (0x101, lz4.frame.compress(PLAIN)),
    "zstd": (0x201, zstandard.ZstdCompressor().compress(PLAIN)),
}
BOMB = (0x301, zlib.compress(b"\x00" * (BODY_BYTES_MAX + 1)))
BROKEN = {"cut short": (0x301, KINDS["zlib"][1][:-9]), "rubbish": (0x201, b"\x28\xb5\x2f\xfd rubbish"), "too large": BOMB}


def up(seed: int) -> tuple[World, Tool, Sender]:
    """A node with the topic."""
    world = World.started(seed)
    tool = Tool(world, "tool")
    tool.topic(TOPIC, 1)
    return world, tool, Sender(world, "p")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_every_protocol_has_the_body_that_was_meant(kind: str, faults: str) -> None:
    world, tool, sender = up(241)
    flag, body = KINDS[kind]
    device = MqttClient(world, "d")
    device.connect()
    device.subscribe(f"{TOPIC}/#")
    sent = sender.send(TOPIC, body, 0, flag, KEYS="k")
    assert device.take() == [PLAIN]
    world.disturb(faults)
    for record in (
        *Consumer(world, "pulls", "pulls", TOPIC).drain(0),
        *(one.record for one in Consumer(world, "pops", "pops", TOPIC).pop()),
        *tool.by_key(TOPIC, "k"),
        *tool.by_offset_id(sent["msgId"]),
    ):
        assert (record.body, record.sys_flag & 0x701) == (body, flag)
    (message,) = Receiver(world, "receives", "receives", TOPIC).receive()
    assert (message.body, message.system_properties.body_encoding) == (PLAIN, pb.IDENTITY)
    asker = HttpCaller(world)
    (document,) = asker.receive("asks", TOPIC)
    assert base64.b64decode(document["body"]) == PLAIN
    assert "compressed" not in document
    status, _, content = asker.ask("POST", f"/v1/groups/bare/topics/{TOPIC}:receive?max=1", accept="application/octet-stream")
    assert (status, content) == (200, PLAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_bodies_on_all_the_ways_that_a_message_may_go(kind: str) -> None:
    """A delay level, a timer, a transaction, a send-back and a dead letter keep the compression flag."""
    world, tool, sender = up(242)
    flag, body = KINDS[kind]
    tool.group(GROUP, retryMaxTimes=0)
    sender.send(TOPIC, body, 0, flag, UNIQ_KEY="LEVEL", DELAY="1")
    sender.send(TOPIC, body, 0, flag, UNIQ_KEY="TIMER", TIMER_DELAY_MS="3000")
    half = sender.send(TOPIC, body, 0, flag | 4, UNIQ_KEY="HALF", TRAN_MSG="true", PGROUP=sender.group)
    assert sender.end(half, COMMIT) == 0
    world.again()
    world.clock.run_for(5_000)
    consumer = Consumer(world, "c", GROUP, TOPIC)
    found = consumer.drain(0)
    assert sorted(properties.text(record.properties, "UNIQ_KEY") for record in found) == ["HALF", "LEVEL", "TIMER"]
    for record in found:
        assert consumer.give_back(record) == 0
    world.again(power=True)
    letters = consumer.drain(0, 0, f"%DLQ%{GROUP}")
    assert len(letters) == 3
    for record in (*found, *letters):
        assert (record.body, record.sys_flag & 0x701) == (body, flag)
    receiver = Receiver(world, "dead", "readers", f"%DLQ%{GROUP}")
    assert [message.body for message in receiver.receive()] == [PLAIN] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_direct_consumption_and_replies(kind: str) -> None:
    world, tool, sender = up(243)
    flag, body = KINDS[kind]
    message_id = sender.send(TOPIC, body, 0, flag)["msgId"]
    member = GrpcRespondent(world, "grpc", GROUP, TOPIC)
    world.clock.run_for(100)
    asked = {"consumerGroup": GROUP, "clientId": "grpc", "msgId": message_id}
    assert tool.call(codes.CONSUME_DIRECTLY, asked).code == 0
    assert member.asked[0].verify_message_command.message.body == PLAIN
    pairs = [("REPLY_TO_CLIENT", sender.name), ("CORRELATION_ID", "c"), ("MSG_TYPE", "reply"), ("UNIQ_KEY", "R")]
    told = properties.encode(pairs)
    fields = {
        "a": GROUP, "b": "DefaultCluster_REPLY_TOPIC", "c": "TBW102", "d": "4", "e": "0", "f": str(flag),
        "g": "1", "h": "0", "i": told.decode(), "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    assert tool.call(codes.SEND_REPLY_V2, fields, body).code == 0
    (pushed,) = [each for each in sender.heard if each.code == codes.PUSH_REPLY and not each.flag & FLAG_RESPONSE]
    assert (pushed.body, (pushed.fields() or {})["sysFlag"]) == (body, str(flag))


@pytest.mark.parametrize("kind", BROKEN)
def test_a_body_that_cannot_be_made_plain_harms_nobody(kind: str) -> None:
    """RocketMQ clients get the body unchanged; MQTT clients do not get the message, but all later ones."""
    world, tool, sender = up(244)
    flag, body = BROKEN[kind]
    device = MqttClient(world, "d")
    device.connect()
    device.subscribe(f"{TOPIC}/#")
    sender.send(TOPIC, body, 0, flag, KEYS="k")
    sender.send(TOPIC, b"next", 0)
    assert device.take() == [b"next"]
    world.again()
    assert [record.body for record in records(Consumer(world, "c", "pulls", TOPIC).pull(0, 0).body)] == [body, b"next"]
    assert [record.body for record in tool.by_key(TOPIC, "k")] == [body]
    first, second = Receiver(world, "r", "receives", TOPIC).receive()
    assert (first.body, first.system_properties.body_encoding) == (body, pb.GZIP), "an SDK finds out that it is corrupt"
    assert second.body == b"next"
    broken, after = HttpCaller(world).receive("asks", TOPIC)
    assert (base64.b64decode(broken["body"]), broken["compressed"]) == (body, True)
    assert base64.b64decode(after["body"]) == b"next"


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_gzip_over_grpc_is_zlib_or_plain_for_the_others(power: bool) -> None:
    """The flag in the log means zlib: a gzip body is stored decompressed, a zlib body is stored as it was sent."""
    world, _, _ = up(245)
    publisher = Publisher(world, "g", TOPIC)
    gzip = zlib.compressobj(wbits=31)
    bodies = [gzip.compress(PLAIN) + gzip.flush(), zlib.compress(PLAIN)]
    for number, body in enumerate(bodies):
        message = pb.Message(body=body)
        message.topic.name = TOPIC
        message.system_properties.message_id = f"G{number:031}"
        message.system_properties.body_encoding = pb.GZIP
        message.system_properties.message_type = pb.NORMAL
        answer = publisher.call("SendMessage", pb.SendMessageRequest(messages=[message]), pb.SendMessageResponse)
        assert answer.status.code == pb.OK
    world.again(power)
    found = Consumer(world, "c", "pulls", TOPIC).drain(0)
    assert [zlib.decompress(record.body) if record.sys_flag & 1 else record.body for record in found] == [PLAIN, PLAIN]
    assert [message.body for message in Receiver(world, "r", "receives", TOPIC).receive()] == [PLAIN, PLAIN]


def test_the_limit_over_grpc_in_its_own_words_also_for_what_grows_too_large() -> None:
    world, _, _ = up(246)
    publisher = Publisher(world, "g", TOPIC)

    def send(body: bytes, encoding: int) -> int:
        message = pb.Message(body=body)
        message.topic.name = TOPIC
        message.system_properties.message_id = "G" * 32
        message.system_properties.body_encoding = encoding  # type: ignore[assignment]
        message.system_properties.message_type = pb.NORMAL
        answer = publisher.call("SendMessage", pb.SendMessageRequest(messages=[message]), pb.SendMessageResponse)
        return int(answer.status.code)

    assert send(b"x" * BODY_BYTES_MAX, pb.IDENTITY) == pb.OK
    assert send(b"x" * (BODY_BYTES_MAX + 1), pb.IDENTITY) == pb.MESSAGE_BODY_TOO_LARGE
    assert send(BOMB[1], pb.GZIP) != pb.OK
    world.again()
    assert [len(message.body) for message in Receiver(world, "r", "receives", TOPIC).receive()] == [BODY_BYTES_MAX]
