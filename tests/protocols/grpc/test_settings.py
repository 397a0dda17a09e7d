"""Telemetry, routes and assignments: the calls of a client before its first message."""

from __future__ import annotations

import pytest

from domain.admin.group import GroupFound, QueryGroup
from domain.admin.topic import QueryTopic, TopicFound
from domain.client.membership import Heartbeat
from domain.delivery.retry import RetryPolicy
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.topic.topic import Group, Topic
from protocols.grpc import settings
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import Stage, consumer, prefixed, telling, with_settings


def test_producer_settings_are_merged_and_answered_each_time(stage: Stage) -> None:
    stream = stage.open_telemetry()
    assert stage.client.status(stream) == b"200"
    sent = pb.Settings(client_type=pb.PRODUCER)
    sent.request_timeout.seconds = 3
    sent.publishing.topics.add(name="orders", resource_namespace="ns")
    sent.user_agent.language = 1
    for round_ in (1, 2):
        stage.notify(stream, sent)
        heartbeat = stage.take(Heartbeat)
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


def test_consumer_settings_carry_what_its_group_says(engine: EngineFactory) -> None:
    stage, stream = telling(engine, consumer(pb.PUSH_CONSUMER))
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


@pytest.mark.parametrize(
    ("policy", "steps_ms"),
    [(RetryPolicy(steps_ms=(1_500, 60_000)), [1_500, 60_000]), (RetryPolicy("EXPONENTIAL", initial_ms=250, max_ms=9_000), [])],
)
def test_settings_tell_the_retry_policy_of_the_group(engine: EngineFactory, policy: RetryPolicy, steps_ms: list[int]) -> None:
    stage, stream = with_settings(engine, pb.PUSH_CONSUMER, Group("g", retry=policy))
    told = pb.TelemetryCommand.FromString(stage.messages(stream)[0]).settings.backoff_policy
    assert [step.ToMilliseconds() for step in told.customized_backoff.next] == steps_ms
    backoff = told.exponential_backoff
    if not steps_ms:
        assert (backoff.initial.ToMilliseconds(), backoff.max.ToMilliseconds(), backoff.multiplier) == (250, 9_000, 2)


@pytest.mark.parametrize(
    "sent",
    [
        pb.Settings(client_type=pb.PRODUCER),
        pb.Settings(client_type=pb.PULL_CONSUMER, subscription=pb.Subscription(group=pb.Resource(name="g"))),
        pb.Settings(client_type=pb.LITE_SIMPLE_CONSUMER, subscription=pb.Subscription(group=pb.Resource(name="g"))),
        pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="a b")])),
        consumer(group="no group"),
        consumer(topic="no topic"),
    ],
    ids=["neither", "pull", "lite simple", "topic", "group", "subscription"],
)
def test_wrong_settings_end_the_stream(engine: EngineFactory, sent: pb.Settings) -> None:
    stage, stream = telling(engine, sent)
    assert stage.commands == []
    assert stage.grpc_status(stream)[0] == 3


def test_broken_sql_filter_is_refused(engine: EngineFactory) -> None:
    sent = consumer()
    sent.subscription.subscriptions[0].expression.type = pb.SQL
    sent.subscription.subscriptions[0].expression.expression = "colour ="
    stage, stream = telling(engine, sent)
    assert stage.grpc_status(stream)[0] == 3


def test_other_telemetry_is_ignored_and_half_close_is_answered(stage: Stage) -> None:
    stream = stage.open_telemetry()
    stage.client.connection.send_data(stream, prefixed(b"\x1a\x03\x0a\x01\x31") + prefixed(b""))
    stage.client.connection.end_stream(stream)
    stage.client.exchange()
    assert stage.messages(stream) == []
    assert stage.grpc_status(stream) == (0, "")


def test_route_names_the_endpoint_by_which_the_client_came(stage: Stage) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="t", resource_namespace="ns"))
    request.endpoints.scheme = pb.DOMAIN_NAME
    request.endpoints.addresses.add(host="gate.example", port=443)
    stream = stage.call("QueryRoute", request)
    query = stage.take(QueryTopic)
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


@pytest.mark.parametrize(("kind", "accepted"), [("FIFO", [pb.FIFO]), ("MIXED", [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION])])
def test_route_without_an_endpoint_names_the_advertised_one(stage: Stage, kind: str, accepted: list[int]) -> None:
    stream = stage.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    query = stage.take(QueryTopic)
    stage.give(TopicFound(query.ticket, Topic("t", type=kind)))
    queue = pb.QueryRouteResponse.FromString(stage.messages(stream)[0]).message_queues[0]
    assert queue.broker.endpoints.scheme == pb.IPv4
    assert [(address.host, address.port) for address in queue.broker.endpoints.addresses] == [("10.1.2.3", 8081)]
    assert list(queue.accept_message_types) == accepted


def test_unknown_topic_is_not_found(stage: Stage) -> None:
    stream = stage.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    query = stage.take(QueryTopic)
    stage.give(Refused(query.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND)))
    assert pb.QueryRouteResponse.FromString(stage.messages(stream)[0]).status.code == pb.TOPIC_NOT_FOUND


@pytest.mark.parametrize(("fifo", "ids"), [(False, [-1]), (True, [0, 1, 2])])
def test_assignment_is_any_queue_or_each_of_a_fifo_group(stage: Stage, fifo: bool, ids: list[int]) -> None:
    request = pb.QueryAssignmentRequest(topic=pb.Resource(name="t"), group=pb.Resource(name="g"))
    stream = stage.call("QueryAssignment", request)
    topic, group = stage.take_all()
    assert isinstance(topic, QueryTopic)
    assert isinstance(group, QueryGroup)
    stage.give(GroupFound(group.ticket, Group("g", orderly=fifo)))
    stage.give(TopicFound(topic.ticket, Topic("t", read_queues=3)))
    told = pb.QueryAssignmentResponse.FromString(stage.messages(stream)[0])
    assert [assignment.message_queue.id for assignment in told.assignments] == ids
