"""Refusals of SendMessage and other calls, through grpcio: SDKs check most values before they send.

The order and the codes are those of RocketMQ's GrpcValidator and SendMessageActivity.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from domain import limits
from protocols.grpc.call import FIELDS_MAX
from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.grpc.setup import UPDATE_AND_CREATE_TOPIC, ask, make_topic
from tests.interop.grpc.test_stub import METADATA, SERVICE, method
from tests.interop.node import Node

pytestmark = pytest.mark.interop
LIMIT = limits.BODY_BYTES_MAX
Change = Callable[[pb.Message], None]
TOPICS = {"plain": "NORMAL", "fifo": "FIFO", "later": "DELAY", "halves": "TRANSACTION", "all": "MIXED", "lights": "LITE"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        for topic, kind in TOPICS.items():
            make_topic(running, topic, kind)
        fields = {"topic": "sealed", "readQueueNums": "1", "writeQueueNums": "1", "perm": "4", "topicFilterType": "SINGLE_TAG"}
        ask(running, UPDATE_AND_CREATE_TOPIC, fields, b"")
        yield running


@pytest.fixture(scope="module")
def channel(node: Node) -> Iterator[grpc.Channel]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}", options=options) as opened:
        yield opened


def call(channel: grpc.Channel, name: str, request: Any) -> int:
    """The Status code of a unary call."""
    answer = method(channel, name, getattr(pb, f"{name}Response"))(request)
    assert answer.status.message, "a status has its words"
    return int(answer.status.code)


def message(change: Change, topic: str = "plain") -> pb.Message:
    made = pb.Message(topic=pb.Resource(name=topic), body=b"body")
    made.system_properties.message_id = "ID"
    change(made)
    return made


def code_of(channel: grpc.Channel, *messages: pb.Message) -> str:
    return str(pb.Code.Name(call(channel, "SendMessage", pb.SendMessageRequest(messages=messages))))


def system(**facts: Any) -> Change:
    """Set what is plain in the system properties."""

    def change(made: pb.Message) -> None:
        for name, value in facts.items():
            setattr(made.system_properties, name, value)

    return change


def body(content: bytes) -> Change:
    return lambda made: setattr(made, "body", content)


def packed(content: bytes) -> Change:
    def change(made: pb.Message) -> None:
        made.body = content
        made.system_properties.body_encoding = pb.GZIP

    return change


def user(**pairs: str) -> Change:
    return lambda made: made.user_properties.update(pairs)


def many(made: pb.Message) -> None:
    made.user_properties.update({f"name{at}": "x" for at in range(129)})


def keys(*names: str) -> Change:
    return lambda made: made.system_properties.keys.extend(names)


def much(made: pb.Message) -> None:
    """16 KiB and one byte, a third of it each in a property, the tag and a key; characters of several bytes."""
    made.user_properties["name"] = "é" * 2_729
    made.system_properties.tag = "é" * 2_731
    made.system_properties.keys.append("é" * 2_731)


def at(seconds: int) -> Change:
    return lambda made: made.system_properties.delivery_timestamp.FromSeconds(int(time.time()) + seconds)


def orphan(seconds: int) -> Change:
    def change(made: pb.Message) -> None:
        made.system_properties.message_type = pb.TRANSACTION
        made.system_properties.orphaned_transaction_recovery_duration.seconds = seconds

    return change


YEAR_S = 366 * 86_400
REFUSED: tuple[tuple[str, str, Change, str], ...] = (
    ("a topic with a dot", "no.topic", system(), "ILLEGAL_TOPIC"),
    ("no topic", "", system(), "ILLEGAL_TOPIC"),
    ("a topic of 128 characters", "t" * 128, system(), "ILLEGAL_TOPIC"),
    ("a system topic", "RMQ_SYS_TRANS_HALF_TOPIC", system(), "ILLEGAL_TOPIC"),
    ("a topic that takes nothing", "sealed", system(), "FORBIDDEN"),
    ("no body", "plain", body(b""), "MESSAGE_BODY_EMPTY"),
    ("a body over 4 MiB", "plain", body(bytes(LIMIT + 1)), "MESSAGE_BODY_TOO_LARGE"),
    ("GZIP over 4 MiB inside", "plain", packed(gzip.compress(bytes(LIMIT + 1))), "MESSAGE_CORRUPTED"),
    ("GZIP that is none", "plain", packed(b"body"), "MESSAGE_CORRUPTED"),
    ("129 properties", "plain", many, "MESSAGE_PROPERTIES_TOO_LARGE"),
    ("a reserved property", "plain", user(UNIQ_KEY="x"), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    ("an origin property", "plain", user(HG_PROTOCOL="x"), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    ("a control character in a property's name", "plain", user(**{"a\x01b": "x"}), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    ("a control character in a property", "plain", user(a="x\x02y"), "ILLEGAL_MESSAGE_PROPERTY_KEY"),
    ("a blank tag", "plain", system(tag="  "), "ILLEGAL_MESSAGE_TAG"),
    ("a tag with a bar", "plain", system(tag="a|b"), "ILLEGAL_MESSAGE_TAG"),
    ("a control character in the tag", "plain", system(tag="a\nb"), "ILLEGAL_MESSAGE_TAG"),
    ("a blank key", "plain", keys("good", " "), "ILLEGAL_MESSAGE_KEY"),
    ("a control character in a key", "plain", keys("a\tb"), "ILLEGAL_MESSAGE_KEY"),
    ("properties, tag and keys over 16 KiB", "plain", much, "MESSAGE_PROPERTIES_TOO_LARGE"),
    ("no id", "plain", system(message_id=""), "ILLEGAL_MESSAGE_ID"),
    ("a blank id", "plain", system(message_id="  "), "ILLEGAL_MESSAGE_ID"),
    ("an orphan after more than an hour", "halves", orphan(3_601), "BAD_REQUEST"),
    ("a delivery in more than a year", "later", at(YEAR_S + 60), "ILLEGAL_DELIVERY_TIME"),
    ("a blank message group", "fifo", system(message_group=" "), "ILLEGAL_MESSAGE_GROUP"),
    ("a message group of 64 bytes", "fifo", system(message_group="é" * 32), "ILLEGAL_MESSAGE_GROUP"),
    ("a control character in the message group", "fifo", system(message_group="a\rb"), "ILLEGAL_MESSAGE_GROUP"),
    ("a lite topic with a dot", "lights", system(lite_topic="a.b"), "ILLEGAL_LITE_TOPIC"),
    ("a lite topic of 65 characters", "lights", system(lite_topic="a" * 65), "ILLEGAL_LITE_TOPIC"),
    ("a negative priority", "all", system(priority=-1), "BAD_REQUEST"),
    ("FIFO to a normal topic", "plain", system(message_group="g"), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ("a delay to a normal topic", "plain", at(60), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ("a transaction to a normal topic", "plain", orphan(0), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ("a plain message to a FIFO topic", "fifo", system(), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
    ("a plain message to a lite topic", "lights", system(), "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"),
)
TAKEN: tuple[tuple[str, str, Change], ...] = (
    ("4 MiB", "plain", body(os.urandom(LIMIT))),
    ("4 MiB inside GZIP", "plain", packed(gzip.compress(bytes(LIMIT)))),
    ("128 properties", "plain", lambda made: made.user_properties.update({f"name{number}": "x" for number in range(128)})),
    ("a message group of 63 bytes", "fifo", system(message_group="x" * 63)),
    ("a lite topic of 64 characters", "lights", system(lite_topic="a" * 64)),
    ("a delivery in a year", "later", at(YEAR_S - 60)),
    ("a delivery in the past", "later", at(-60)),
    ("an orphan after an hour", "halves", orphan(3_600)),
    ("a delay to a topic of all types", "all", at(60)),
    ("FIFO to a topic of all types", "all", system(message_group="g")),
)


@pytest.mark.parametrize(("topic", "change", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_message_is_refused(channel: grpc.Channel, topic: str, change: Change, code: str) -> None:
    assert code_of(channel, message(change, topic)) == code


@pytest.mark.parametrize(("topic", "change"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_a_message_at_the_limit_is_taken(channel: grpc.Channel, topic: str, change: Change) -> None:
    assert code_of(channel, message(change, topic)) == "OK"


def test_a_batch_is_of_one_topic_and_not_empty(channel: grpc.Channel) -> None:
    assert code_of(channel) == "MESSAGE_CORRUPTED"
    assert code_of(channel, message(system()), message(system(), "all")) == "MESSAGE_CORRUPTED"
    assert code_of(channel, message(system()), message(system(tag="|"))) == "ILLEGAL_MESSAGE_TAG"
    assert code_of(channel, message(system(message_id="A")), message(system(message_id="B"))) == "OK"


def test_a_batch_and_its_bodies_are_bounded(channel: grpc.Channel) -> None:
    few = [message(system(message_id=f"ID{number}")) for number in range(FIELDS_MAX)]
    assert code_of(channel, *few) == "OK"
    assert code_of(channel, *few, message(system())) == "BAD_REQUEST"
    zeros = [message(packed(gzip.compress(bytes(LIMIT // 2)))) for _ in range(3)]
    assert code_of(channel, *zeros[:2]) == "OK"
    assert code_of(channel, *zeros) == "PAYLOAD_TOO_LARGE"
    assert code_of(channel, message(keys(*["k"] * 16_385))) == "MESSAGE_PROPERTIES_TOO_LARGE"
    assert code_of(channel, message(lambda made: setattr(made.topic, "resource_namespace", "n" * 600_000))) == "BAD_REQUEST"


def telemetry(channel: grpc.Channel, settings: pb.Settings) -> str:
    """What a Telemetry stream answers to settings: `settings`, or its grpc-status."""
    stream = channel.stream_stream(
        SERVICE + "Telemetry",
        request_serializer=lambda command: command.SerializeToString(),
        response_deserializer=pb.TelemetryCommand.FromString,
    )
    try:
        return str(next(stream(iter([pb.TelemetryCommand(settings=settings)]), metadata=METADATA)).WhichOneof("command"))
    except grpc.RpcError as error:
        return str(error.code().name)


def consumer_of(count: int, expression: str = "") -> pb.Settings:
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
    settings.subscription.group.name = "g"
    for number in range(count):
        entry = settings.subscription.subscriptions.add()
        entry.topic.name = f"t{number}"
        entry.expression.type = pb.SQL if expression else pb.TAG
        entry.expression.expression = expression or "*"
    return settings


def producer_of(count: int) -> pb.Settings:
    settings = pb.Settings(client_type=pb.PRODUCER)
    settings.publishing.topics.extend([pb.Resource(name=f"t{number}") for number in range(count)])
    return settings


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        (consumer_of(1_024), "settings"),
        (consumer_of(1_025), "INVALID_ARGUMENT"),
        (consumer_of(128, "a = 1"), "settings"),
        (consumer_of(129, "a = 1"), "INVALID_ARGUMENT"),
        (consumer_of(2, "a = '" + "x" * 4_000 + "'"), "settings"),
        (consumer_of(3, "a = '" + "x" * 4_000 + "'"), "INVALID_ARGUMENT"),
        (producer_of(2_048), "settings"),
        (producer_of(2_049), "INVALID_ARGUMENT"),
    ],
)
def test_settings_are_bounded(channel: grpc.Channel, settings: pb.Settings, answer: str) -> None:
    assert telemetry(channel, settings) == answer


def test_entries_and_names_of_a_request_are_bounded(channel: grpc.Channel) -> None:
    acknowledgement = pb.AckMessageRequest(group=GROUP, topic=TOPIC, entries=[ENTRY] * 500)
    assert call(channel, "AckMessage", acknowledgement) == pb.INVALID_RECEIPT_HANDLE
    acknowledgement.entries.extend([ENTRY] * 100)
    assert call(channel, "AckMessage", acknowledgement) == pb.BAD_REQUEST
    names = [f"l{number}" for number in range(5_000)]
    asked = pb.SyncLiteSubscriptionRequest(topic=pb.Resource(name="lights"), group=GROUP, lite_topic_set=names)
    assert call(channel, "SyncLiteSubscription", asked) == pb.BAD_REQUEST
    route = pb.QueryRouteRequest(topic=TOPIC)
    for number in range(1_000):
        route.endpoints.addresses.add(host=f"10.0.0.{number % 256}", port=8_081)
    assert call(channel, "QueryRoute", route) == pb.BAD_REQUEST


GROUP, TOPIC = pb.Resource(name="g"), pb.Resource(name="plain")
ENTRY = pb.AckMessageEntry(message_id="ID", receipt_handle="no handle")
WRONG_GROUP, WRONG_TOPIC = pb.Resource(name="g!"), pb.Resource(name="t!")


def change(seconds: int, handle: str = "no handle") -> pb.ChangeInvisibleDurationRequest:
    asked = pb.ChangeInvisibleDurationRequest(group=GROUP, topic=TOPIC, receipt_handle=handle, message_id="ID")
    asked.invisible_duration.seconds = seconds
    return asked


def recall(topic: pb.Resource, handle: str) -> pb.RecallMessageRequest:
    return pb.RecallMessageRequest(topic=topic, recall_handle=handle)


OTHERS: tuple[tuple[str, Any, str], ...] = (
    ("QueryRoute", pb.QueryRouteRequest(topic=WRONG_TOPIC), "ILLEGAL_TOPIC"),
    ("QueryAssignment", pb.QueryAssignmentRequest(topic=WRONG_TOPIC, group=GROUP), "ILLEGAL_TOPIC"),
    ("QueryAssignment", pb.QueryAssignmentRequest(topic=TOPIC, group=WRONG_GROUP), "ILLEGAL_CONSUMER_GROUP"),
    ("AckMessage", pb.AckMessageRequest(topic=WRONG_TOPIC, group=GROUP), "ILLEGAL_TOPIC"),
    ("AckMessage", pb.AckMessageRequest(topic=TOPIC, group=WRONG_GROUP), "ILLEGAL_CONSUMER_GROUP"),
    ("AckMessage", pb.AckMessageRequest(topic=TOPIC, group=GROUP, entries=[ENTRY]), "INVALID_RECEIPT_HANDLE"),
    ("ChangeInvisibleDuration", change(10), "INVALID_RECEIPT_HANDLE"),
    ("ChangeInvisibleDuration", change(12 * 3_600 + 1), "ILLEGAL_INVISIBLE_TIME"),
    ("ChangeInvisibleDuration", change(-1), "ILLEGAL_INVISIBLE_TIME"),
    (
        "ForwardMessageToDeadLetterQueue",
        pb.ForwardMessageToDeadLetterQueueRequest(topic=TOPIC, group=GROUP, receipt_handle="no handle"),
        "INVALID_RECEIPT_HANDLE",
    ),
    ("EndTransaction", pb.EndTransactionRequest(topic=TOPIC, resolution=pb.COMMIT), "INVALID_TRANSACTION_ID"),
    ("RecallMessage", recall(WRONG_TOPIC, "x"), "ILLEGAL_TOPIC"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "request_", "code"), OTHERS, ids=[f"{row[0]}-{row[2]}-{at}" for at, row in enumerate(OTHERS)])
def test_another_call_is_refused(channel: grpc.Channel, name: str, request_: Any, code: str) -> None:
    assert pb.Code.Name(call(channel, name, request_)) == code


def wanting(change_: Callable[[pb.ReceiveMessageRequest], None]) -> pb.ReceiveMessageRequest:
    asked = pb.ReceiveMessageRequest(group=GROUP, batch_size=1)
    asked.message_queue.topic.CopyFrom(TOPIC)
    asked.invisible_duration.seconds = 30
    asked.long_polling_timeout.seconds = 5
    change_(asked)
    return asked


def sql(expression: str) -> pb.FilterExpression:
    return pb.FilterExpression(type=pb.SQL, expression=expression)


RECEIVES: tuple[tuple[Callable[[pb.ReceiveMessageRequest], None], str], ...] = (
    (lambda asked: asked.message_queue.topic.CopyFrom(WRONG_TOPIC), "ILLEGAL_TOPIC"),
    (lambda asked: asked.group.CopyFrom(WRONG_GROUP), "ILLEGAL_CONSUMER_GROUP"),
    (lambda asked: setattr(asked.invisible_duration, "seconds", 9), "ILLEGAL_INVISIBLE_TIME"),
    (lambda asked: setattr(asked.invisible_duration, "seconds", 12 * 3_600 + 1), "ILLEGAL_INVISIBLE_TIME"),
    (lambda asked: asked.filter_expression.CopyFrom(sql("a >")), "ILLEGAL_FILTER_EXPRESSION"),
    (lambda asked: asked.filter_expression.CopyFrom(sql("")), "ILLEGAL_FILTER_EXPRESSION"),
    (lambda asked: asked.filter_expression.MergeFromString(b"\x08\x63\x12\x01*"), "ILLEGAL_FILTER_EXPRESSION"),  # type 99
)


@pytest.mark.parametrize(("change_", "code"), RECEIVES, ids=[f"{row[1]}-{at}" for at, row in enumerate(RECEIVES)])
def test_a_receive_is_refused(channel: grpc.Channel, change_: Callable[[pb.ReceiveMessageRequest], None], code: str) -> None:
    raw = channel.unary_stream(
        "/apache.rocketmq.v2.MessagingService/ReceiveMessage",
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=pb.ReceiveMessageResponse.FromString,
    )
    parts = list(raw(wanting(change_), metadata=(("x-mq-client-id", "stub-1"), ("x-mq-language", "PYTHON")), timeout=10))
    assert pb.Code.Name(parts[0].status.code) == code
    assert not any(part.HasField("message") for part in parts)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("verb", ["GET", "PUT"])
def test_a_method_other_than_post_is_405(node: Node, verb: str) -> None:
    url = f"http://127.0.0.1:{node.port('grpc')}/apache.rocketmq.v2.MessagingService/QueryRoute"
    asked = ["-H", "content-type: application/grpc", "-H", "x-mq-client-id: stub-1", "--data-binary", "@-", url]
    done = subprocess.run(
        ["curl", "-si", "--http2-prior-knowledge", "-X", verb, *asked],
        input=bytes(5),
        capture_output=True,
        check=True,
        timeout=20,
    )
    first, *fields = done.stdout.decode().splitlines()
    assert first.split()[1] == "405"
    assert "allow: POST" in fields
