"""SendMessage: the stored message, and refusals by code."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence

import pytest

from domain.command import (
    Send,
)
from domain.errors import ErrorCode, Failure
from domain.event import Refused, Sent
from domain.message.message import Placed
from domain.message.property import decode
from domain.turn import RECEIVED_NS
from protocols import compression
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import WALL_MS, Stage, message


def test_send_carries_the_message_and_answers_in_order(stage: Stage) -> None:
    first, second = message(b"one", "ID1"), message(b"two", "ID2")
    first.system_properties.tag = "A"
    first.system_properties.keys.extend(["k1", "k2"])
    first.system_properties.message_group = "order-7"
    first.system_properties.trace_context = "00-ab-cd-01"
    first.user_properties["colour"] = "grün"
    first.user_properties["traceparent"] = "00-ef-01-01"
    first.user_properties["CE_id"] = "e 1"
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[first, second]))
    command = stage.take(Send)
    assert command.wait
    assert command.typed
    one, two = command.messages
    assert (one.topic, one.body, one.message_id, one.queue_id, one.sys_flag) == ("t", b"one", "ID1", -1, 0)
    assert one.born_ms == 1_780_000_000_456
    assert one.born_host == b"\x7f\x00\x00\x01\x00\x00\xc3\x50"
    assert decode(one.properties) == {
        "UNIQ_KEY": "ID1",
        "colour": "grün",
        "traceparent": "00-ef-01-01",
        "CE_id": "e 1",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "order-7",
        "TRACE_CONTEXT": "00-ab-cd-01",
        "HG_PROTOCOL": "grpc",
        "HG_CLIENT": "client-1",
    }
    assert decode(two.properties) == {"UNIQ_KEY": "ID2", "HG_PROTOCOL": "grpc", "HG_CLIENT": "client-1"}
    stage.give(Sent(command.ticket, [Placed(1, 5, 900, 0, "ID1"), Placed(2, 1 << 40, 990, 0, "ID2")]))
    (answer,) = stage.messages(stream)
    told = pb.SendMessageResponse.FromString(answer)
    assert told.status.code == pb.OK
    assert [(entry.status.code, entry.message_id, entry.offset) for entry in told.entries] == [
        (pb.OK, "ID1", 5),
        (pb.OK, "ID2", 1 << 40),
    ]
    assert stage.grpc_status(stream) == (0, "")


def test_delay_becomes_a_delivery_time_in_the_past_too(stage: Stage) -> None:
    later, past = message(), message()
    later.system_properties.delivery_timestamp.seconds = WALL_MS // 1000 + 60
    past.system_properties.delivery_timestamp.seconds = 5
    stage.call("SendMessage", pb.SendMessageRequest(messages=[later, past]))
    command = stage.take(Send)
    assert decode(command.messages[0].properties)["TIMER_DELIVER_MS"] == str((WALL_MS // 1000 + 60) * 1000)
    assert decode(command.messages[1].properties)["TIMER_DELIVER_MS"] == "5000", "the type of the message is DELAY all the same"


def test_gzip_body_is_stored_plain_and_zlib_as_it_is(stage: Stage) -> None:
    packed, deflated = message(gzip.compress(b"text")), message(zlib.compress(b"text"))
    packed.system_properties.body_encoding = deflated.system_properties.body_encoding = pb.GZIP
    stage.call("SendMessage", pb.SendMessageRequest(messages=[packed, deflated]))
    command = stage.take(Send)
    assert [(sent.body, sent.sys_flag) for sent in command.messages] == [(b"text", 0), (zlib.compress(b"text"), 0x301)]


@pytest.mark.parametrize(("copies", "code"), [(False, pb.MASTER_PERSISTENCE_TIMEOUT), (True, pb.SLAVE_PERSISTENCE_TIMEOUT)])
def test_refused_send_is_told_in_the_status(stage: Stage, copies: bool, code: int) -> None:
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[message()]))
    command = stage.take(Send)
    stage.give(Refused(command.ticket, Failure(ErrorCode.FLUSH_TIMEOUT, "too slow", copies=copies)))
    told = pb.SendMessageResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.status.message) == (code, "too slow")
    assert stage.grpc_status(stream) == (0, "")


def changed(
    body: bytes = b"body", topic: str = "t", keys: Sequence[str] = (), properties: Mapping[str, str] | None = None,
    deliver_s: int = 0, **system: object,
) -> pb.Message:  # fmt: skip
    """A valid message with changes; `system`: fields of its system properties."""
    out = message(body, topic=topic)
    out.system_properties.keys.extend(keys)
    out.user_properties.update(properties or {})
    if deliver_s:
        out.system_properties.delivery_timestamp.seconds = deliver_s
    for name, value in system.items():
        setattr(out.system_properties, name, value)
    return out


REFUSED: list[tuple[str, list[pb.Message], int]] = [
    ("no messages", [], pb.MESSAGE_CORRUPTED),
    ("no topic", [changed(topic="")], pb.ILLEGAL_TOPIC),
    ("bad topic", [changed(topic="../etc")], pb.ILLEGAL_TOPIC),
    ("system topic", [changed(topic="rmq_sys_wheel_timer")], pb.ILLEGAL_TOPIC),
    ("two topics", [message(), changed(topic="u")], pb.MESSAGE_CORRUPTED),
    ("empty body", [changed(body=b"")], pb.MESSAGE_BODY_EMPTY),
    ("large body", [changed(body=bytes(4 * 1024 * 1024 + 1))], pb.MESSAGE_BODY_TOO_LARGE),
    ("large batch", [changed(body=bytes(3 * 1024 * 1024)), changed(body=bytes(1_200_000))], pb.PAYLOAD_TOO_LARGE),
    ("many properties", [changed(properties={f"k{at}": "v" for at in range(129)})], pb.MESSAGE_PROPERTIES_TOO_LARGE),
    ("large properties", [changed(properties={"k": "v" * 16_384})], pb.MESSAGE_PROPERTIES_TOO_LARGE),
    ("large tag and keys", [changed(tag="t" * 9_000, keys=["k" * 7_000, "l" * 385])], pb.MESSAGE_PROPERTIES_TOO_LARGE),
    ("reserved property", [changed(properties={"UNIQ_KEY": "x"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("our own property", [changed(properties={"HG_PROTOCOL": "mqtt"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("an expiry that is none", [changed(properties={"mq-expires-at": "soon"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("separator in a value", [changed(properties={"k": "v\x02TAGS\x01x"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("blank tag", [changed(tag="  ")], pb.ILLEGAL_MESSAGE_TAG),
    ("tag with a bar", [changed(tag="a|b")], pb.ILLEGAL_MESSAGE_TAG),
    ("tag with a control character", [changed(tag="a\x01b")], pb.ILLEGAL_MESSAGE_TAG),
    ("blank key", [changed(keys=["a", " "])], pb.ILLEGAL_MESSAGE_KEY),
    ("key with a control character", [changed(keys=["a\x02"])], pb.ILLEGAL_MESSAGE_KEY),
    ("blank id", [changed(message_id=" ")], pb.ILLEGAL_MESSAGE_ID),
    ("id with a control character", [changed(message_id="a\x02b")], pb.ILLEGAL_MESSAGE_ID),
    ("lite topic", [changed(lite_topic="no/slash")], pb.ILLEGAL_LITE_TOPIC),
    ("far delivery", [changed(deliver_s=WALL_MS // 1000 + 367 * 86_400)], pb.ILLEGAL_DELIVERY_TIME),
    ("blank message group", [changed(message_group=" ")], pb.ILLEGAL_MESSAGE_GROUP),
    ("long message group", [changed(message_group="g" * 64)], pb.ILLEGAL_MESSAGE_GROUP),
    ("corrupt gzip", [changed(body_encoding=pb.GZIP)], pb.MESSAGE_CORRUPTED),
    ("bomb", [changed(body_encoding=pb.GZIP, body=zlib.compress(bytes(5 * 1024 * 1024)))], pb.MESSAGE_CORRUPTED),
]


@pytest.mark.parametrize(("messages", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_illegal_messages_are_refused_by_name(stage: Stage, messages: list[pb.Message], code: int) -> None:
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=messages))
    assert stage.commands == []
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == code
    assert stage.grpc_status(stream) == (0, "")


ALLOWED: list[tuple[str, pb.Message, dict[str, str]]] = [
    ("properties of 16 KiB", changed(properties={"k" * 8_192: "v" * 8_192}), {"k" * 8_192: "v" * 8_192}),
    ("a tag and keys of 16 KiB", changed(tag="t" * 9_000, keys=["k" * 7_000, "l" * 384]), {"TAGS": "t" * 9_000}),
    ("an empty tag is none", changed(tag=""), {}),
    ("an empty key is none", changed(keys=["", "k", ""]), {"KEYS": "k"}),
    ("nothing but empty keys", changed(keys=[""]), {}),
    ("an empty message group is none", changed(message_group=""), {}),
]
"""A message, and bytes that its properties must contain: names and values, without separators."""


@pytest.mark.parametrize(("sent", "kept"), [row[1:] for row in ALLOWED], ids=[row[0] for row in ALLOWED])
def test_what_the_limits_and_the_names_allow_is_sent(stage: Stage, sent: pb.Message, kept: dict[str, str]) -> None:
    stage.call("SendMessage", pb.SendMessageRequest(messages=[sent]))
    [command] = stage.commands
    assert isinstance(command, Send)
    found = decode(command.messages[0].properties)
    assert kept.items() <= found.items()
    if not kept:
        assert not {"TAGS", "KEYS", "__SHARDINGKEY"} & found.keys()


def test_a_large_body_is_decompressed_and_stored_in_different_turns(
    engine: EngineFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    inflated: list[int] = []
    inflate = compression.inflate

    def counting(body: bytes, limit: int) -> bytes | None:
        inflated.append(len(body))
        return inflate(body, limit)

    monkeypatch.setattr(compression, "inflate", counting)
    stage = Stage(engine)
    body = gzip.compress(bytes(4 << 20))
    for number in range(4):
        packed = message(body, f"ID{number}")
        packed.system_properties.body_encoding = pb.GZIP
        stage.call("SendMessage", pb.SendMessageRequest(messages=[packed]))
    turns = [(len(stage.take_all()), len(inflated))]
    while stage.server.deadline() == 0:
        stage.now += RECEIVED_NS
        before = len(inflated)
        turns.append((len(stage.server.expire(stage.now)), len(inflated) - before))
    assert sorted(turns) == [(0, 1)] * 4 + [(1, 0)] * 4
