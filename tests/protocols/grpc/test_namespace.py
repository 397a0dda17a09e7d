"""Namespaces over gRPC: names are stored as `namespace%name`, and clients receive their own names."""

from __future__ import annotations

from domain.admin.group import GroupFound, QueryGroup
from domain.admin.topic import QueryTopic, TopicFound
from domain.client.membership import Heartbeat
from domain.command import Acknowledge, Receive, Send
from domain.event import Received
from domain.message import record
from domain.message.message import Message
from domain.topic.topic import Group, Topic
from domain.transaction import CheckTransaction, EndTransaction
from protocols.grpc.messages import messaging_pb2 as pb
from tests.protocols.grpc.stage import Stage, consumer, leased, message


def test_a_consumer_inside_a_namespace(stage: Stage) -> None:
    stream = stage.open_telemetry()
    settings = consumer(pb.SIMPLE_CONSUMER)
    settings.subscription.group.resource_namespace = "shop"
    settings.subscription.subscriptions[0].topic.resource_namespace = "shop"
    stage.notify(stream, settings)
    heartbeat, query = stage.take_all()
    assert isinstance(heartbeat, Heartbeat)
    assert isinstance(query, QueryGroup)
    assert heartbeat.consumers[0].group == query.group == "shop%g"
    assert [each.topic for each in heartbeat.consumers[0].subscriptions] == ["shop%t"]
    stage.give(GroupFound(query.ticket, Group("shop%g")))
    merged = pb.TelemetryCommand.FromString(stage.messages(stream)[-1]).settings.subscription
    assert (merged.group.resource_namespace, merged.group.name) == ("shop", "g")
    request = pb.ReceiveMessageRequest(batch_size=1)
    request.group.CopyFrom(settings.subscription.group)
    request.message_queue.topic.CopyFrom(settings.subscription.subscriptions[0].topic)
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 5
    poll = stage.call("ReceiveMessage", request)
    receive = stage.take(Receive)
    assert (receive.group, receive.topic) == ("shop%g", "shop%t")
    stage.give(Received(receive.ticket, [leased(b"body")], 1, 30_000))
    shown = pb.ReceiveMessageResponse.FromString(stage.messages(poll)[1]).message
    assert (shown.topic.resource_namespace, shown.topic.name) == ("shop", "t")
    settle = pb.AckMessageRequest(group=request.group, topic=request.message_queue.topic)
    settle.entries.add(message_id="ID1", receipt_handle=shown.system_properties.receipt_handle)
    stage.call("AckMessage", settle)
    acknowledge = stage.take(Acknowledge)
    assert (acknowledge.group, acknowledge.topic) == ("shop%g", "shop%t")


def test_the_metadata_counts_where_a_resource_is_silent(stage: Stage) -> None:
    extra = [(b"x-mq-namespace", b"shop")]
    stage.call("SendMessage", pb.SendMessageRequest(messages=[message()]), extra=extra)
    sent = stage.take(Send)
    assert sent.messages[0].topic == "shop%t"
    other = message()
    other.topic.resource_namespace = "yard"
    stage.call("SendMessage", pb.SendMessageRequest(messages=[other]), extra=extra)
    sent = stage.take(Send)
    assert sent.messages[0].topic == "yard%t"
    both = pb.SendMessageRequest(messages=[message(), other])
    stream = stage.call("SendMessage", both, extra=extra)
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.MESSAGE_CORRUPTED


def test_a_namespace_that_could_be_mistaken_for_another_is_none(stage: Stage) -> None:
    for space in ("a%b", "a b", "%RETRY", "x" * 65):
        sent = message()
        sent.topic.resource_namespace = space
        stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[sent]))
        assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.ILLEGAL_TOPIC
    assert not stage.commands


def test_routes_name_the_topic_as_it_was_asked_for(stage: Stage) -> None:
    request = pb.QueryRouteRequest()
    request.topic.name = "t"
    request.topic.resource_namespace = "shop"
    stream = stage.call("QueryRoute", request)
    query = stage.take(QueryTopic)
    assert query.topic == "shop%t"
    stage.give(TopicFound(query.ticket, Topic("shop%t")))
    place = pb.QueryRouteResponse.FromString(stage.messages(stream)[0]).message_queues[0]
    assert (place.topic.resource_namespace, place.topic.name) == ("shop", "t")


def test_a_producer_is_asked_about_its_transaction_in_its_own_words(stage: Stage) -> None:
    stream = stage.open_telemetry()
    settings = pb.Settings(client_type=pb.PRODUCER)
    settings.publishing.topics.add(name="t", resource_namespace="shop")
    stage.notify(stream, settings)
    heartbeat = stage.take(Heartbeat)
    assert heartbeat.producers == ["shop%t"]
    half = record.encode(Message("shop%t", b"half", b"UNIQ_KEY\x01ID\x02"), 0, 0, 0, bytes(8))
    stage.give(CheckTransaction(None, "client-1", "shop%t", "ID", half))
    asked = pb.TelemetryCommand.FromString(stage.messages(stream)[-1]).recover_orphaned_transaction_command
    assert (asked.message.topic.resource_namespace, asked.message.topic.name) == ("shop", "t")
    end = pb.EndTransactionRequest(topic=asked.message.topic, transaction_id="ID", resolution=pb.COMMIT)
    stage.call("EndTransaction", end)
    decision = stage.take(EndTransaction)
    assert decision.group == "shop%t"
