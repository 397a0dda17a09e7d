"""The RPCs: what each asks of the node, and what its client is told."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence

import pytest

from domain.command import (
    Acknowledge,
    DeadLetter,
    Extend,
    Heartbeat,
    Leave,
    QueryGroup,
    QueryTopic,
    Receive,
    Send,
)
from domain.errors import ErrorCode, Failure
from domain.event import Done, Extended, GroupFound, Received, Refused, Sent, Settled, TopicFound
from domain.message import Placed
from domain.property import decode
from domain.receipt import parse
from domain.retry import RetryPolicy
from domain.topic import Group, Topic
from protocols.grpc import settings
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import SECOND, WALL_MS, Stage, consumer, cut, leased, message, prefixed
from tests.protocols.http2.peer import both_engines


def with_settings(engine: EngineFactory, kind: pb.ClientType = pb.SIMPLE_CONSUMER, fifo: bool = False) -> tuple[Stage, int]:
    """A consumer whose Telemetry handshake is done."""
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, consumer(kind))
    _, query = stage.take_all()
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, Group("g", orderly=fifo)))
    return stage, stream


def poll(auto_renew: bool = False, queue_id: int = 2) -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(batch_size=40, auto_renew=auto_renew)
    request.group.name = "g"
    request.message_queue.topic.name = "t"
    request.message_queue.id = queue_id
    if not auto_renew:
        request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 15
    return request


# SendMessage


@both_engines
def test_send_carries_the_message_and_answers_in_order(engine: EngineFactory) -> None:
    stage = Stage(engine)
    first, second = message(b"one", "ID1"), message(b"two", "ID2")
    first.system_properties.tag = "A"
    first.system_properties.keys.extend(["k1", "k2"])
    first.system_properties.message_group = "order-7"
    first.system_properties.trace_context = "00-ab-cd-01"
    first.user_properties["colour"] = "grün"
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[first, second]))
    command = stage.take()
    assert isinstance(command, Send)
    assert command.wait
    assert command.typed
    one, two = command.messages
    assert (one.topic, one.body, one.message_id, one.queue_id, one.sys_flag) == ("t", b"one", "ID1", -1, 0)
    assert one.born_ms == 1_780_000_000_456
    assert one.born_host == b"\x7f\x00\x00\x01\x00\x00\xc3\x50"
    assert decode(one.properties) == {
        "UNIQ_KEY": "ID1",
        "colour": "grün",
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


@both_engines
def test_delay_becomes_a_delivery_time_and_the_past_is_now(engine: EngineFactory) -> None:
    stage = Stage(engine)
    later, past = message(), message()
    later.system_properties.delivery_timestamp.seconds = WALL_MS // 1000 + 60
    past.system_properties.delivery_timestamp.seconds = 5
    stage.call("SendMessage", pb.SendMessageRequest(messages=[later, past]))
    command = stage.take()
    assert isinstance(command, Send)
    assert decode(command.messages[0].properties)["TIMER_DELIVER_MS"] == str((WALL_MS // 1000 + 60) * 1000)
    assert "TIMER_DELIVER_MS" not in decode(command.messages[1].properties)


@both_engines
def test_gzip_body_is_stored_plain_and_zlib_as_it_is(engine: EngineFactory) -> None:
    stage = Stage(engine)
    packed, deflated = message(gzip.compress(b"text")), message(zlib.compress(b"text"))
    packed.system_properties.body_encoding = deflated.system_properties.body_encoding = pb.GZIP
    stage.call("SendMessage", pb.SendMessageRequest(messages=[packed, deflated]))
    command = stage.take()
    assert isinstance(command, Send)
    assert [(sent.body, sent.sys_flag) for sent in command.messages] == [(b"text", 0), (zlib.compress(b"text"), 0x301)]


@both_engines
def test_refused_send_is_told_in_the_status(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[message()]))
    command = stage.take()
    assert isinstance(command, Send)
    stage.give(Refused(command.ticket, Failure(ErrorCode.FLUSH_TIMEOUT, "too slow")))
    told = pb.SendMessageResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.status.message) == (pb.MASTER_PERSISTENCE_TIMEOUT, "too slow")
    assert stage.grpc_status(stream) == (0, "")


def changed(
    body: bytes = b"body", topic: str = "t", keys: Sequence[str] = (), properties: Mapping[str, str] | None = None,
    deliver_s: int = 0, **system: object,
) -> pb.Message:  # fmt: skip
    """A message that differs from a good one; `system`: fields of its system properties."""
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
    ("reserved property", [changed(properties={"UNIQ_KEY": "x"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("our own property", [changed(properties={"HG_PROTOCOL": "mqtt"})], pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
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


@both_engines
@pytest.mark.parametrize(("messages", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_illegal_messages_are_refused_by_name(engine: EngineFactory, messages: list[pb.Message], code: int) -> None:
    stage = Stage(engine)
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=messages))
    assert stage.commands == []
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == code
    assert stage.grpc_status(stream) == (0, "")


# Telemetry


@both_engines
def test_producer_settings_are_merged_and_answered_each_time(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    assert stage.client.status(stream) == b"200"
    sent = pb.Settings(client_type=pb.PRODUCER)
    sent.request_timeout.seconds = 3
    sent.publishing.topics.add(name="orders", resource_namespace="ns")
    sent.user_agent.language = 1
    for round_ in (1, 2):
        stage.tell(stream, sent)
        heartbeat = stage.take()
        assert isinstance(heartbeat, Heartbeat)
        assert (heartbeat.client_id, heartbeat.producers, heartbeat.wait) == ("client-1", ["ns%orders"], False)
        told = pb.TelemetryCommand.FromString(stage.messages(stream)[-1])
        assert len(stage.messages(stream)) == round_
        assert told.status.code == pb.OK
        assert told.settings.publishing.max_body_size == 4_194_304
        assert told.settings.publishing.validate_message_type
        assert told.settings.publishing.topics == sent.publishing.topics
        assert told.settings.backoff_policy.max_attempts == settings.PRODUCER_ATTEMPTS
        assert told.settings.backoff_policy.exponential_backoff.initial.nanos == 10_000_000
        assert told.settings.request_timeout.seconds == 3
        assert told.settings.user_agent.language == 1
        assert told.settings.HasField("metric")
        assert not told.settings.metric.on


@both_engines
def test_consumer_settings_carry_what_its_group_says(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, consumer(pb.PUSH_CONSUMER))
    heartbeat, query = stage.take_all()
    assert isinstance(heartbeat, Heartbeat)
    assert isinstance(query, QueryGroup)
    (member,) = heartbeat.consumers
    assert (member.group, member.consume_type, [entry.topic for entry in member.subscriptions]) == (
        "g",
        "CONSUME_PASSIVELY",
        ["t"],
    )
    assert heartbeat.language == "JAVA"
    stage.give(GroupFound(query.ticket, Group("g", orderly=True, retry_max=4)))
    told = pb.TelemetryCommand.FromString(stage.messages(stream)[0]).settings
    assert told.subscription.fifo
    assert told.subscription.receive_batch_size == 32
    assert told.subscription.long_polling_timeout.seconds == 20
    assert told.subscription.subscriptions[0].topic.name == "t"
    assert told.backoff_policy.max_attempts == 5
    assert [step.seconds for step in told.backoff_policy.customized_backoff.next][:3] == [1, 5, 10]


@both_engines
@pytest.mark.parametrize(
    ("policy", "steps_ms"),
    [(RetryPolicy(steps_ms=(1_500, 60_000)), [1_500, 60_000]), (RetryPolicy("EXPONENTIAL", initial_ms=250, max_ms=9_000), [])],
)
def test_settings_tell_the_retry_policy_of_the_group(engine: EngineFactory, policy: RetryPolicy, steps_ms: list[int]) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, consumer(pb.PUSH_CONSUMER))
    _, query = stage.take_all()
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, Group("g", retry=policy)))
    told = pb.TelemetryCommand.FromString(stage.messages(stream)[0]).settings.backoff_policy
    assert [step.ToMilliseconds() for step in told.customized_backoff.next] == steps_ms
    backoff = told.exponential_backoff
    if not steps_ms:
        assert (backoff.initial.ToMilliseconds(), backoff.max.ToMilliseconds(), backoff.multiplier) == (250, 9_000, 2)


@both_engines
@pytest.mark.parametrize(
    "sent",
    [
        pb.Settings(client_type=pb.PRODUCER),
        pb.Settings(client_type=pb.PULL_CONSUMER, subscription=pb.Subscription(group=pb.Resource(name="g"))),
        pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="a b")])),
        consumer(group="no group"),
        consumer(topic="no topic"),
    ],
    ids=["neither", "pull", "topic", "group", "subscription"],
)
def test_wrong_settings_end_the_stream(engine: EngineFactory, sent: pb.Settings) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, sent)
    assert stage.commands == []
    assert stage.grpc_status(stream)[0] == 3


@both_engines
def test_broken_sql_filter_is_refused(engine: EngineFactory) -> None:
    sent = consumer()
    sent.subscription.subscriptions[0].expression.type = pb.SQL
    sent.subscription.subscriptions[0].expression.expression = "colour ="
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, sent)
    assert stage.grpc_status(stream)[0] == 3


@both_engines
def test_other_telemetry_is_ignored_and_half_close_is_answered(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.client.connection.send_data(stream, prefixed(b"\x1a\x03\x0a\x01\x31") + prefixed(b""))
    stage.client.connection.end_stream(stream)
    stage.client.exchange()
    assert stage.messages(stream) == []
    assert stage.grpc_status(stream) == (0, "")


# Routes


@both_engines
def test_route_names_the_endpoint_by_which_the_client_came(engine: EngineFactory) -> None:
    stage = Stage(engine)
    request = pb.QueryRouteRequest(topic=pb.Resource(name="t", resource_namespace="ns"))
    request.endpoints.scheme = pb.DOMAIN_NAME
    request.endpoints.addresses.add(host="gate.example", port=443)
    stream = stage.call("QueryRoute", request)
    query = stage.take()
    assert isinstance(query, QueryTopic)
    assert (query.topic, query.create) == ("ns%t", True)
    stage.give(TopicFound(query.ticket, Topic("t", read_queues=3, write_queues=2)))
    told = pb.QueryRouteResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.OK
    assert [(queue.id, queue.permission) for queue in told.message_queues] == [
        (0, pb.READ),
        (1, pb.READ_WRITE),
        (2, pb.READ_WRITE),
    ]
    queue = told.message_queues[0]
    assert (queue.broker.name, queue.broker.id) == ("broker-a", 0)
    assert queue.broker.endpoints == request.endpoints
    assert queue.topic == request.topic
    assert list(queue.accept_message_types) == [pb.NORMAL]


@both_engines
@pytest.mark.parametrize(("kind", "accepted"), [("FIFO", [pb.FIFO]), ("MIXED", [pb.NORMAL, pb.FIFO, pb.DELAY])])
def test_route_without_an_endpoint_names_the_advertised_one(engine: EngineFactory, kind: str, accepted: list[int]) -> None:
    stage = Stage(engine)
    stream = stage.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    query = stage.take()
    assert isinstance(query, QueryTopic)
    stage.give(TopicFound(query.ticket, Topic("t", type=kind)))
    queue = pb.QueryRouteResponse.FromString(stage.messages(stream)[0]).message_queues[0]
    assert queue.broker.endpoints.scheme == pb.IPv4
    assert [(address.host, address.port) for address in queue.broker.endpoints.addresses] == [("10.1.2.3", 8081)]
    assert list(queue.accept_message_types) == accepted


@both_engines
def test_unknown_topic_is_not_found(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    query = stage.take()
    assert isinstance(query, QueryTopic)
    stage.give(Refused(query.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND)))
    assert pb.QueryRouteResponse.FromString(stage.messages(stream)[0]).status.code == pb.TOPIC_NOT_FOUND


@both_engines
@pytest.mark.parametrize(("fifo", "ids"), [(False, [-1]), (True, [0, 1, 2])])
def test_assignment_is_any_queue_or_each_of_a_fifo_group(engine: EngineFactory, fifo: bool, ids: list[int]) -> None:
    stage = Stage(engine)
    request = pb.QueryAssignmentRequest(topic=pb.Resource(name="t"), group=pb.Resource(name="g"))
    stream = stage.call("QueryAssignment", request)
    topic, group = stage.take_all()
    assert isinstance(topic, QueryTopic)
    assert isinstance(group, QueryGroup)
    stage.give(GroupFound(group.ticket, Group("g", orderly=fifo)))
    stage.give(TopicFound(topic.ticket, Topic("t", read_queues=3)))
    told = pb.QueryAssignmentResponse.FromString(stage.messages(stream)[0])
    assert [assignment.message_queue.id for assignment in told.assignments] == ids


# ReceiveMessage


@both_engines
def test_receive_answers_status_messages_and_time(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll(), timeout="18S")
    command = stage.take()
    assert isinstance(command, Receive)
    assert (command.group, command.topic, command.limit, command.invisible_ms) == ("g", "t", 32, 30_000)
    assert (command.wait_ms, command.queue_id, command.filter, command.ordered) == (15_000, -1, None, False)
    stage.give(Received(command.ticket, [leased(b"one"), leased(b"two", offset=8, attempt=3)], WALL_MS, 30_000))
    told = [pb.ReceiveMessageResponse.FromString(part) for part in stage.messages(stream)]
    assert [part.WhichOneof("content") for part in told] == ["status", "message", "message", "delivery_timestamp"]
    assert told[0].status.code == pb.OK
    one, two = told[1].message, told[2].message
    assert (one.topic.name, one.body, one.system_properties.message_id) == ("t", b"one", "ID1")
    assert one.system_properties.body_digest.type == pb.MD5
    assert one.system_properties.body_digest.checksum == "F97C5D29941BFB1B2FDAB0874906AB82"
    assert one.system_properties.receipt_handle == f"7 {WALL_MS} 30000 0 0 broker-a 3 7 4096"
    assert (two.system_properties.delivery_attempt, two.system_properties.queue_offset) == (3, 8)
    assert told[3].delivery_timestamp.ToMilliseconds() == WALL_MS
    assert stage.grpc_status(stream) == (0, "")


@both_engines
@pytest.mark.parametrize(("kind", "text"), [(pb.TAG, "A || B"), (pb.SQL, "TAGS = 'A' OR colour = 'red'")])
def test_filters_of_both_types_go_with_the_poll(engine: EngineFactory, kind: pb.FilterType, text: str) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.type = kind
    request.filter_expression.expression = text
    stage.call("ReceiveMessage", request)
    command = stage.take()
    assert isinstance(command, Receive)
    assert command.filter is not None
    assert command.filter.matches(b"TAGS\x01A\x02")
    assert not command.filter.matches(b"TAGS\x01C\x02")


@both_engines
def test_broken_filter_is_refused_by_name(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.type = pb.SQL
    request.filter_expression.expression = "colour ="
    stream = stage.call("ReceiveMessage", request)
    assert stage.commands == []
    told = pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.ILLEGAL_FILTER_EXPRESSION


@both_engines
def test_nothing_to_receive_is_message_not_found(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll())
    command = stage.take()
    assert isinstance(command, Receive)
    stage.give(Received(command.ticket, [], WALL_MS, 30_000))
    told = [pb.ReceiveMessageResponse.FromString(part) for part in stage.messages(stream)]
    assert [part.WhichOneof("content") for part in told] == ["status", "delivery_timestamp"]
    assert told[0].status.code == pb.MESSAGE_NOT_FOUND


@both_engines
def test_poll_that_overtakes_its_settings_asks_the_group(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("ReceiveMessage", poll())
    query = stage.take()
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, Group("g", orderly=True)))
    (command,) = stage.expire(stage.now)
    assert isinstance(command, Receive)
    assert (command.ordered, command.wait_ms) == (True, 15_000)
    stage.give(Received(command.ticket, [leased(b"one")], WALL_MS, 30_000))
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[1]).message.body == b"one"


@both_engines
@pytest.mark.parametrize(
    ("asked_s", "timeout", "wait_ms"),
    [(15, "18S", 15_000), (40, "43S", 20_000), (1, "", 5_000), (30, "10S", 9_900), (None, "", 20_000), (None, "13S", 11_500)],
)
def test_polling_time_follows_request_and_deadline(
    engine: EngineFactory, asked_s: int | None, timeout: str, wait_ms: int
) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.ClearField("long_polling_timeout")
    if asked_s is not None:
        request.long_polling_timeout.seconds = asked_s
    stage.call("ReceiveMessage", request, timeout)
    command = stage.take()
    assert isinstance(command, Receive)
    assert command.wait_ms == wait_ms


@both_engines
def test_deadline_too_near_for_a_poll_is_refused(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll(), timeout="3S")
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.ILLEGAL_POLLING_TIME


@both_engines
def test_illegal_invisible_time_is_refused(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.invisible_duration.seconds = 9
    stream = stage.call("ReceiveMessage", request)
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.ILLEGAL_INVISIBLE_TIME


@both_engines
def test_fifo_push_consumer_polls_its_queue_in_order(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER, fifo=True)
    request = poll(auto_renew=True)
    request.attempt_id = "attempt-1"
    stage.call("ReceiveMessage", request)
    command = stage.take()
    assert isinstance(command, Receive)
    assert (command.ordered, command.queue_id, command.attempt_id, command.invisible_ms) == (True, 2, "attempt-1", 60_000)


@both_engines
def test_messages_for_a_poll_that_was_cancelled_are_given_back(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll())
    command = stage.take()
    assert isinstance(command, Receive)
    stage.client.connection.reset_stream(stream, 8)
    stage.client.exchange()
    stage.give(Received(command.ticket, [leased(b"one")], WALL_MS, 30_000))
    (back,) = stage.expire(stage.now)
    assert isinstance(back, Extend)
    assert (back.group, back.topic, back.invisible_ms, back.receipts[0].queue_offset) == ("g", "t", 0, 7)
    stage.give(Extended(back.ticket, [back.receipts[0]]))
    assert not stage.server.closed


# What consumers say of messages


@both_engines
def test_ack_settles_and_tells_each_entry(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    handle = leased(b"x").receipt.text()
    request = pb.AckMessageRequest(group=pb.Resource(name="g"), topic=pb.Resource(name="t"))
    for name in (handle, "not a handle", handle):
        request.entries.add(message_id="M", receipt_handle=name)
    stream = stage.call("AckMessage", request)
    command = stage.take()
    assert isinstance(command, Acknowledge)
    assert [receipt.text() for receipt in command.receipts] == [handle, handle]
    stage.give(Settled(command.ticket, [None, Failure(ErrorCode.RECEIPT_EXPIRED, "late")]))
    told = pb.AckMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.MULTIPLE_RESULTS
    assert [entry.status.code for entry in told.entries] == [
        pb.OK,
        pb.INVALID_RECEIPT_HANDLE,
        pb.INVALID_RECEIPT_HANDLE,
    ]
    assert [entry.receipt_handle for entry in told.entries] == [handle, "not a handle", handle]


@both_engines
@pytest.mark.parametrize(
    ("outcome", "code"), [(None, pb.OK), (Failure(ErrorCode.RECEIPT_EXPIRED, "x" * 300), pb.INVALID_RECEIPT_HANDLE)]
)
def test_one_ack_has_its_code_on_top(engine: EngineFactory, outcome: Failure | None, code: int) -> None:
    stage, _ = with_settings(engine)
    request = pb.AckMessageRequest(group=pb.Resource(name="g"), topic=pb.Resource(name="t"))
    request.entries.add(message_id="M", receipt_handle=leased(b"x").receipt.text())
    stream = stage.call("AckMessage", request)
    command = stage.take()
    assert isinstance(command, Acknowledge)
    stage.give(Settled(command.ticket, [outcome]))
    told = pb.AckMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == told.entries[0].status.code == code


@both_engines
def test_change_of_invisible_time_hands_out_the_new_handle(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    handle = leased(b"x").receipt.text()
    request = pb.ChangeInvisibleDurationRequest(group=pb.Resource(name="g"), topic=pb.Resource(name="t"), receipt_handle=handle)
    stream = stage.call("ChangeInvisibleDuration", request)
    command = stage.take()
    assert isinstance(command, Extend)
    assert command.invisible_ms == 0
    fresh = parse(handle.replace("30000", "0"))
    assert fresh is not None
    stage.give(Extended(command.ticket, [fresh]))
    told = pb.ChangeInvisibleDurationResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.receipt_handle) == (pb.OK, fresh.text())


@both_engines
@pytest.mark.parametrize(
    ("handle", "seconds", "code"),
    [("junk", 10, pb.INVALID_RECEIPT_HANDLE), ("0 1 2 3 0 b 0 0", 43_201, pb.ILLEGAL_INVISIBLE_TIME)],
)
def test_refused_change_gives_the_old_handle_back(engine: EngineFactory, handle: str, seconds: int, code: int) -> None:
    stage, _ = with_settings(engine)
    request = pb.ChangeInvisibleDurationRequest(group=pb.Resource(name="g"), topic=pb.Resource(name="t"), receipt_handle=handle)
    request.invisible_duration.seconds = seconds
    stream = stage.call("ChangeInvisibleDuration", request)
    told = pb.ChangeInvisibleDurationResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.receipt_handle) == (code, handle)


@both_engines
def test_forwarding_to_the_dead_letter_queue(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name="g"), topic=pb.Resource(name="t"), receipt_handle=leased(b"x").receipt.text()
    )
    stream = stage.call("ForwardMessageToDeadLetterQueue", request)
    command = stage.take()
    assert isinstance(command, DeadLetter)
    assert command.receipt.queue_offset == 7
    stage.give(Done(command.ticket))
    told = pb.ForwardMessageToDeadLetterQueueResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.OK


# Living and leaving


@both_engines
def test_heartbeat_needs_settings_and_then_keeps_the_member(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("Heartbeat", pb.HeartbeatRequest())
    assert pb.HeartbeatResponse.FromString(stage.messages(stream)[0]).status.code == pb.UNRECOGNIZED_CLIENT_TYPE
    stage, _ = with_settings(engine)
    stream = stage.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.SIMPLE_CONSUMER))
    command = stage.take()
    assert isinstance(command, Heartbeat)
    assert command.consumers[0].group == "g"
    stage.give(Done(command.ticket))
    assert pb.HeartbeatResponse.FromString(stage.messages(stream)[0]).status.code == pb.OK


@both_engines
def test_termination_leaves_and_forgets(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    command = stage.take()
    assert isinstance(command, Leave)
    assert (command.client_id, command.consumer_group) == ("client-1", "g")
    stage.give(Done(command.ticket))
    assert pb.NotifyClientTerminationResponse.FromString(stage.messages(stream)[0]).status.code == pb.OK
    again = stage.call("Heartbeat", pb.HeartbeatRequest())
    assert pb.HeartbeatResponse.FromString(stage.messages(again)[0]).status.code == pb.UNRECOGNIZED_CLIENT_TYPE


# Below the service


@both_engines
@pytest.mark.parametrize("name", ["SendMessage", "QueryRoute", "ReceiveMessage", "AckMessage", "Heartbeat"])
def test_client_without_an_id_is_told_so(engine: EngineFactory, name: str) -> None:
    stage = Stage(engine, client_id="")
    stream = stage.call(name, pb.SendMessageRequest(messages=[message()]))
    assert stage.commands == []
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.CLIENT_ID_REQUIRED
    assert stage.grpc_status(stream) == (0, "")


@both_engines
def test_telemetry_without_an_id_is_told_so_and_ended(engine: EngineFactory) -> None:
    stage = Stage(engine, client_id="")
    stream = stage.open_telemetry()
    assert pb.TelemetryCommand.FromString(stage.messages(stream)[0]).status.code == pb.CLIENT_ID_REQUIRED
    assert stage.grpc_status(stream) == (0, "")


@both_engines
@pytest.mark.parametrize("name", ["PullMessage", "GetOffset", "Nonsense"])
def test_what_is_not_served_is_unimplemented(engine: EngineFactory, name: str) -> None:
    stage = Stage(engine)
    stream = stage.call(name, pb.HeartbeatRequest())
    assert stage.grpc_status(stream)[0] == 12


@both_engines
def test_unknown_encoding_is_unimplemented_and_gzip_is_read(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[message()]), extra=[(b"grpc-encoding", b"snappy")])
    assert stage.grpc_status(stream)[0] == 12
    packed = gzip.compress(pb.SendMessageRequest(messages=[message()]).SerializeToString())
    body = b"\x01" + len(packed).to_bytes(4, "big") + packed
    stage.client.request(
        "/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers(extra=[(b"grpc-encoding", b"gzip")])
    )
    assert isinstance(stage.take(), Send)


BROKEN: list[tuple[str, bytes, int]] = [
    ("nothing", b"", 13),
    ("half a prefix", b"\x00\x00", 13),
    ("half a message", b"\x00\x00\x00\x00\x09abc", 13),
    ("no protobuf", prefixed(b"\xff\xff\xff"), 13),
    ("two messages", prefixed(b"") + prefixed(b""), 3),
    ("lying length", b"\x00\xff\xff\xff\xff", 8),
    ("compressed without saying so", b"\x01\x00\x00\x00\x01x", 13),
    ("unknown flag", b"\x07\x00\x00\x00\x01x", 13),
]


@both_engines
@pytest.mark.parametrize(("body", "code"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_framing_ends_the_call_alone(engine: EngineFactory, body: bytes, code: int) -> None:
    stage = Stage(engine)
    stream = stage.client.request("/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers())
    assert stage.commands == []
    assert stage.grpc_status(stream)[0] == code
    assert not stage.server.closed
    assert isinstance(stage.call("SendMessage", pb.SendMessageRequest(messages=[message()])), int)
    assert isinstance(stage.take(), Send)


@both_engines
def test_gzip_bomb_below_the_service_is_stopped(engine: EngineFactory) -> None:
    stage = Stage(engine)
    packed = gzip.compress(bytes(64 * 1024 * 1024))
    body = b"\x01" + len(packed).to_bytes(4, "big") + packed
    stream = stage.client.request(
        "/apache.rocketmq.v2.MessagingService/SendMessage", body, stage.headers(extra=[(b"grpc-encoding", b"gzip")])
    )
    assert stage.grpc_status(stream)[0] == 8


# Renewal


@both_engines
def test_lease_of_a_push_consumer_is_renewed_and_the_first_handle_still_works(engine: EngineFactory) -> None:
    stage, telemetry = with_settings(engine, pb.PUSH_CONSUMER)
    stage.call("ReceiveMessage", poll(auto_renew=True))
    command = stage.take()
    assert isinstance(command, Receive)
    given = leased(b"slow work")
    stage.give(Received(command.ticket, [given], WALL_MS, 60_000))
    renewals = stage.expire(stage.now + 51 * SECOND)
    (extend,) = renewals
    assert isinstance(extend, Extend)
    assert (extend.group, extend.topic, extend.invisible_ms) == ("g", "t", 60_000)
    renewed = parse(given.receipt.text().replace(str(WALL_MS), str(WALL_MS + 51_000)))
    assert renewed is not None
    stage.give(Extended(extend.ticket, [renewed]))
    request = pb.AckMessageRequest(group=pb.Resource(name="g"), topic=pb.Resource(name="t"))
    request.entries.add(message_id="M", receipt_handle=given.receipt.text())
    stage.call("AckMessage", request)
    ack = stage.take()
    assert isinstance(ack, Acknowledge)
    assert [receipt.text() for receipt in ack.receipts] == [renewed.text()]
    assert stage.expire(stage.now + 120 * SECOND) == []
    assert telemetry in stage.application._calls


@both_engines
def test_renewal_ends_when_the_store_refuses(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER)
    stage.call("ReceiveMessage", poll(auto_renew=True))
    command = stage.take()
    assert isinstance(command, Receive)
    stage.give(Received(command.ticket, [leased(b"x")], WALL_MS, 60_000))
    (extend,) = stage.expire(stage.now + 51 * SECOND)
    assert isinstance(extend, Extend)
    stage.give(Refused(extend.ticket, Failure(ErrorCode.STORE_UNAVAILABLE)))
    assert stage.expire(stage.now + 120 * SECOND) == []


@both_engines
def test_a_lease_that_was_renewed_for_three_hours_ends_as_the_retry_policy_says(engine: EngineFactory) -> None:
    stage = Stage(engine)
    stream = stage.open_telemetry()
    stage.tell(stream, consumer(pb.PUSH_CONSUMER))
    _, query = stage.take_all()
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, Group("g", retry=RetryPolicy("EXPONENTIAL", initial_ms=700))))
    stage.call("ReceiveMessage", poll(auto_renew=True))
    command = stage.take()
    assert isinstance(command, Receive)
    given = leased(b"slow")
    given.attempt = 3
    stage.give(Received(command.ticket, [given], WALL_MS, 60_000))
    delays: list[int] = []
    for _ in range(300):
        stage.now += 50 * SECOND
        for extend in stage.expire(stage.now):
            assert isinstance(extend, Extend)
            delays.append(extend.invisible_ms)
            stage.give(Extended(extend.ticket, list(extend.receipts)))
    assert delays[-1] == 2_800
    assert set(delays[:-1]) == {60_000}
    assert 200 < len(delays) < 240


@both_engines
def test_leases_of_a_client_that_leaves_are_given_back(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER)
    stage.call("ReceiveMessage", poll(auto_renew=True))
    command = stage.take()
    assert isinstance(command, Receive)
    stage.give(Received(command.ticket, [leased(b"x")], WALL_MS, 60_000))
    stage.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    leave = stage.take()
    assert isinstance(leave, Leave)
    stage.give(Done(leave.ticket))
    (back,) = stage.expire(stage.now)
    assert isinstance(back, Extend)
    assert back.invisible_ms == 1_000


@both_engines
def test_messages_arrive_whole_however_they_are_cut(engine: EngineFactory) -> None:
    stage = Stage(engine)
    body = prefixed(pb.SendMessageRequest(messages=[message(bytes(range(256)) * 300)]).SerializeToString())
    connection = stage.client.connection
    stream = connection.get_next_available_stream_id()
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"g")]
    fields.append((b":path", b"/apache.rocketmq.v2.MessagingService/SendMessage"))
    connection.send_headers(stream, fields + stage.headers())
    for at in range(0, len(body), 777):
        connection.send_data(stream, body[at : at + 777])
        stage.client.exchange()
    connection.end_stream(stream)
    stage.client.exchange()
    command = stage.take()
    assert isinstance(command, Send)
    assert command.messages[0].body == bytes(range(256)) * 300
    assert cut(prefixed(b"a") + prefixed(b"")) == [b"a", b""]
