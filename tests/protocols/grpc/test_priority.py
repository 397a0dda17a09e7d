"""Priorities over gRPC: when sending, when receiving, and in the route of a topic."""

from __future__ import annotations

import pytest

from domain.admin.topic import QueryTopic, TopicFound
from domain.command import Send
from domain.message import property as properties
from domain.topic.topic import Topic
from protocols.grpc import translate_out
from protocols.grpc.messages import messaging_pb2 as pb
from tests.protocols.grpc.stage import Stage, leased


def ranked(priority: int) -> pb.Message:
    """A message with a priority."""
    message = pb.Message(topic=pb.Resource(name="ranked"), body=b"x")
    message.system_properties.message_id = "01AB"
    message.system_properties.priority = priority
    return message


@pytest.mark.parametrize("priority", [0, 7, 2**31 - 1])
def test_a_priority_is_stored(stage: Stage, priority: int) -> None:
    stage.call("SendMessage", pb.SendMessageRequest(messages=[ranked(priority)]))
    command = stage.take(Send)
    assert properties.text(command.messages[0].properties, properties.PRIORITY) == str(priority)
    assert properties.message_type(command.messages[0].properties) == "PRIORITY"


def test_a_negative_priority_is_refused(stage: Stage) -> None:
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[ranked(-1)]))
    assert stage.commands == []
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.BAD_REQUEST


def test_the_route_of_such_a_topic_takes_nothing_else(stage: Stage) -> None:
    stream = stage.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="ranked")))
    command = stage.take(QueryTopic)
    stage.give(TopicFound(command.ticket, Topic("ranked", 2, 2, type="PRIORITY")))
    answer = pb.QueryRouteResponse.FromString(stage.messages(stream)[0])
    assert [list(queue.accept_message_types) for queue in answer.message_queues] == [[pb.PRIORITY]] * 2


@pytest.mark.parametrize(
    ("stored", "kind"), [(b"", pb.PRIORITY), (b"__SHARDINGKEY\x01g\x02", pb.FIFO), (b"DELAY\x011\x02", pb.DELAY)]
)
def test_a_receiver_is_told_the_priority(stored: bytes, kind: int) -> None:
    given = leased(b"x", stored + b"_SYS_MSG_PRIORITY_\x015\x02UNIQ_KEY\x01ID\x02")
    field = translate_out.topic_field(pb.Resource(name="ranked"))
    told = pb.Message.FromString(translate_out.message(field, given, given.receipt.text()))
    assert told.system_properties.priority == 5
    assert told.system_properties.message_type == kind
    assert not told.user_properties
