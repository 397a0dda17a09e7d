"""Lite topics over gRPC: SyncLiteSubscription, polls of a lite push consumer, and the notice of a lost lite topic."""

from __future__ import annotations

from typing import Any

import pytest

from domain.client.membership import Leave
from domain.command import Acknowledge
from domain.errors import ErrorCode, Failure
from domain.event import Done, Received, Refused
from domain.topic.lite import LiteAction, LiteTaken, OffsetOption, OffsetOptionType, ReceiveLite, SyncSubscription
from domain.turn import RECEIVED_NS
from protocols.grpc.lite import UNACKED_MAX
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import SECOND, WALL_MS, Stage, leased, poll, with_settings

STORED = b"UNIQ_KEY\x01ID1\x02__LITE_TOPIC\x01a\x02"


def request(action: Any, *names: str, **option: Any) -> pb.SyncLiteSubscriptionRequest:
    """A request for topic t and group g."""
    made = pb.SyncLiteSubscriptionRequest(action=action, lite_topic_set=names)
    made.topic.name = "t"
    made.group.name = "g"
    if option:
        made.offset_option.CopyFrom(pb.OffsetOption(**option))
    return made


def status(stage: Stage, stream: int) -> int:
    return int(pb.SyncLiteSubscriptionResponse.FromString(stage.messages(stream)[0]).status.code)


@pytest.mark.parametrize("action", list(LiteAction))
def test_each_action_is_a_command(stage: Stage, action: LiteAction) -> None:
    stream = stage.call("SyncLiteSubscription", request(getattr(pb, action.name), "a", "b"))
    command = stage.take(SyncSubscription)
    assert (command.client_id, command.group, command.topic) == ("client-1", "g", "t")
    assert (command.action, command.names, command.start) == (action, ["a", "b"], None)
    stage.give(Done(command.ticket))
    assert status(stage, stream) == pb.OK


@pytest.mark.parametrize(
    ("option", "start"),
    [
        ({"policy": pb.OffsetOption.LAST}, OffsetOption(OffsetOptionType.LAST)),
        ({"policy": pb.OffsetOption.MIN}, OffsetOption(OffsetOptionType.MIN)),
        ({"policy": pb.OffsetOption.MAX}, OffsetOption(OffsetOptionType.MAX)),
        ({"offset": 7}, OffsetOption(OffsetOptionType.OFFSET, 7)),
        ({"tail_n": 3}, OffsetOption(OffsetOptionType.TAIL, 3)),
        ({"timestamp": WALL_MS}, OffsetOption(OffsetOptionType.TIME, WALL_MS)),
    ],
)
def test_where_a_group_goes_on_counts_for_what_is_added(stage: Stage, option: dict[str, Any], start: OffsetOption) -> None:
    for action, expected in ((pb.PARTIAL_ADD, start), (pb.COMPLETE_ADD, None), (pb.PARTIAL_REMOVE, None)):
        stage.call("SyncLiteSubscription", request(action, "a", **option))
        command = stage.take(SyncSubscription)
        assert command.start == expected


def test_what_makes_no_sense_is_refused_before_the_node_hears_of_it(stage: Stage) -> None:
    nameless = request(pb.PARTIAL_ADD, "a")
    nameless.group.name = ""
    cases = (
        (request(pb.PARTIAL_ADD, "no/slash"), pb.ILLEGAL_LITE_TOPIC),
        (request(pb.PARTIAL_ADD, "x" * 65), pb.ILLEGAL_LITE_TOPIC),
        (request(9, "a"), pb.BAD_REQUEST),
        (nameless, pb.ILLEGAL_CONSUMER_GROUP),
    )
    for made, code in cases:
        assert status(stage, stage.call("SyncLiteSubscription", made)) == code
    assert stage.commands == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ErrorCode.QUOTA, pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED),
        (ErrorCode.RATE, pb.TOO_MANY_REQUESTS),
        (ErrorCode.TOPIC_NOT_FOUND, pb.TOPIC_NOT_FOUND),
    ],
)
def test_a_refusal_has_its_code(stage: Stage, failure: ErrorCode, code: int) -> None:
    stream = stage.call("SyncLiteSubscription", request(pb.PARTIAL_ADD, "a"))
    command = stage.take(SyncSubscription)
    stage.give(Refused(command.ticket, Failure(failure, "why")))
    assert status(stage, stream) == code


def test_a_poll_of_a_lite_push_consumer_is_one_for_all_that_it_has(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.LITE_PUSH_CONSUMER)
    asked = poll(auto_renew=True)
    asked.attempt_id = "x"
    stream = stage.call("ReceiveMessage", asked, timeout="20S")
    command = stage.take(ReceiveLite)
    assert (command.client_id, command.group, command.topic, command.attempt_id) == ("client-1", "g", "t", "x")
    assert (command.limit, command.wait_ms) == (32, 15_000)
    message = leased(b"x", STORED)
    stage.give(Received(command.ticket, [message], WALL_MS, 30_000))
    answers = [pb.ReceiveMessageResponse.FromString(each) for each in stage.messages(stream)]
    (told,) = [each.message for each in answers if each.HasField("message")]
    assert told.system_properties.lite_topic == "a"
    acknowledgement = pb.AckMessageRequest()
    acknowledgement.group.name = "g"
    acknowledgement.topic.name = "t"
    acknowledgement.entries.add(message_id="ID1", receipt_handle=told.system_properties.receipt_handle, lite_topic="a")
    stage.call("AckMessage", acknowledgement)
    settled = stage.take(Acknowledge)
    assert (settled.topic, settled.receipts) == ("%LMQ%$t$a", [message.receipt])


def test_a_consumer_that_acknowledges_nothing_gets_no_more(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.LITE_PUSH_CONSUMER)
    for turn in range(5):
        stage.now += RECEIVED_NS
        stage.call("ReceiveMessage", poll(auto_renew=True), timeout="20S")
        command = stage.take(ReceiveLite)
        messages = [leased(b"x", STORED, offset=turn * 32 + at) for at in range(32)]
        stage.give(Received(command.ticket, messages, WALL_MS, 30_000))
        if (turn + 1) * 32 > UNACKED_MAX:
            break
    stage.now += RECEIVED_NS
    stream = stage.call("ReceiveMessage", poll(auto_renew=True), timeout="20S")
    assert stage.commands == []
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.FORBIDDEN


def test_a_lite_topic_that_is_taken_away_is_told_on_the_telemetry_stream(engine: EngineFactory) -> None:
    stage, stream = with_settings(engine, pb.LITE_PUSH_CONSUMER)
    stage.give(LiteTaken(None, "client-1", "g", "a"))
    told = pb.TelemetryCommand.FromString(stage.messages(stream)[-1])
    assert told.notify_unsubscribe_lite_command.lite_topic == "a"
    before = len(stage.messages(stream))
    stage.give(LiteTaken(None, "somebody-else", "g", "a"))
    assert len(stage.messages(stream)) == before


def test_termination_ends_what_was_subscribed_to(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.LITE_PUSH_CONSUMER)
    stage.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    leave = stage.take(Leave)
    stage.give(Done(leave.ticket))
    ended = stage.expire_one(stage.now + SECOND, SyncSubscription)
    assert (ended.action, ended.client_id, ended.group) == (LiteAction.COMPLETE_REMOVE, "client-1", "g")
