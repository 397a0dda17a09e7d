"""Questions passed on to clients, and replies to requests: the answers, whatever the client does."""

from __future__ import annotations

import pytest

from domain.admin.client import (
    ClientPositions,
    ConsumeDirectly,
    ConsumptionResult,
    QueryClientPositions,
    QueryRunningInfo,
    RunningInfo,
)
from domain.admin.topic import PutTopic
from domain.client.client_inquiry import (
    ClientAnswered,
    ConsumptionRequest,
    Inquiry,
    PositionsRequest,
    ReplyDelivery,
    RunningInfoRequest,
    SendReply,
)
from domain.client.membership import Heartbeat, Membership
from domain.command import Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import property as properties
from domain.message.message import Message
from domain.topic.topic import Topic
from gateway.usecase.tools import client_inquiries
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


def member(place: Bench, client_id: str, group: str = "g") -> EventRecorder:
    recorder = EventRecorder()
    place.ask(Heartbeat(1, client_id, ["pg"], [Membership(group)]), recorder)
    return recorder


def asked(recorder: EventRecorder) -> Inquiry:
    [event] = [event for event in recorder.take() if isinstance(event, Inquiry)]
    return event


def test_running_info_goes_to_the_client_and_back(bench: Bench) -> None:
    client, tool = member(bench, "c"), EventRecorder()
    assert bench.ask(QueryRunningInfo(7, "g", "c", stacks=True), tool) == []
    question = asked(client)
    assert (question.client_id, question.about) == ("c", RunningInfoRequest("g", True))
    bench.ask(ClientAnswered(question.serial, b"{}"), client)
    assert tool.take() == [RunningInfo(7, b"{}")]
    bench.ask(ClientAnswered(question.serial, b"again"), client)
    assert tool.take() == []


def test_somebody_else_cannot_answer(bench: Bench) -> None:
    client, tool, other = member(bench, "c"), EventRecorder(), member(bench, "other")
    bench.ask(QueryRunningInfo(7, "g", "c"), tool)
    question = asked(client)
    bench.ask(ClientAnswered(question.serial, b"forged"), other)
    assert tool.take() == []
    bench.ask(ClientAnswered(question.serial, b"true"), client)
    assert tool.take() == [RunningInfo(7, b"true")]


def test_a_client_that_is_silent_goes_away_or_is_not_there(bench: Bench) -> None:
    assert code(bench.ask(QueryRunningInfo(7, "g", "c"))) is ErrorCode.GROUP_OFFLINE
    client, tool = member(bench, "c"), EventRecorder()
    bench.ask(QueryRunningInfo(7, "g", "c"), tool)
    assert code(bench.ask(QueryRunningInfo(8, "g", "c"), tool, ms=11_000)[:1]) is ErrorCode.CLIENT_UNKNOWN
    bench.ask(QueryRunningInfo(9, "g", "c"), tool)
    bench.handler.handle(client.connection, Disconnected("end-of-stream"))
    assert code(tool.take()) is ErrorCode.CLIENT_UNKNOWN


def test_what_waits_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_inquiries, "PENDING_MAX", 1)
    member(bench, "c")
    bench.ask(QueryRunningInfo(7, "g", "c"))
    assert code(bench.ask(QueryRunningInfo(8, "g", "c"))) is ErrorCode.OVERLOADED


def test_a_stored_message_is_consumed_by_any_member(bench: Bench) -> None:
    placed = bench.send("T", "hello").placed[0]
    client, tool = member(bench, "c"), EventRecorder()
    bench.ask(ConsumeDirectly(7, "g", "", placed.physical_offset, "ID"), tool)
    question = asked(client)
    assert isinstance(question.about, ConsumptionRequest)
    assert b"hello" in question.about.record
    assert (question.client_id, question.about.message_id) == ("c", "ID")
    bench.ask(ClientAnswered(question.serial, b'{"consumeResult":"CR_SUCCESS"}'), client)
    assert tool.take() == [ConsumptionResult(7, b'{"consumeResult":"CR_SUCCESS"}')]
    assert code(bench.ask(ConsumeDirectly(7, "g", "c", 1 << 40), tool)) is ErrorCode.MESSAGE_NOT_FOUND


def test_positions_of_members_without_the_silent_ones(bench: Bench) -> None:
    one, _two, tool = member(bench, "one"), member(bench, "two"), EventRecorder()
    bench.ask(QueryClientPositions(7, "T", "g"), tool)
    question = asked(one)
    assert question.about == PositionsRequest("g", "T")
    place = ("broker-a", "T", 0, 5)
    bench.ask(ClientAnswered(question.serial, [place]), one)
    assert tool.take() == []
    bench.clock.run_for(6_000)
    assert tool.take() == [ClientPositions(7, {"one": [place]})]
    assert code(bench.ask(QueryClientPositions(8, "T", "g", "two"), tool, ms=6_000)) is ErrorCode.CLIENT_UNKNOWN
    assert code(bench.ask(QueryClientPositions(9, "T", "nobody"), tool)) is ErrorCode.GROUP_OFFLINE


def reply(topic: str = "DefaultCluster_REPLY_TOPIC", to: str = "c") -> Message:
    return Message(topic, b"answer", properties.encode([("REPLY_TO_CLIENT", to), ("CORRELATION_ID", "1")] if to else []))


def answered(place: Bench, client: EventRecorder, answer: bytes | Failure) -> list[Event]:
    replier = EventRecorder()
    assert place.ask(SendReply(7, reply()), replier) == []
    question = asked(client)
    assert isinstance(question.about, ReplyDelivery)
    assert question.about.message.body == b"answer"
    place.ask(ClientAnswered(question.serial, answer), client)
    return replier.take()


def test_a_reply_goes_to_its_requester_and_is_stored(bench: Bench) -> None:
    client = member(bench, "c")
    only(Sent, answered(bench, client, b""))
    assert bench.store.figures()["messages_total"] >= 1
    refused = answered(bench, client, Failure(ErrorCode.CLIENT_UNKNOWN, "not mine"))
    assert code(refused) is ErrorCode.CLIENT_UNKNOWN


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (reply(to=""), ErrorCode.MESSAGE_ILLEGAL),
        (reply(topic="nothing"), ErrorCode.TOPIC_NOT_FOUND),
        (reply(to="nobody"), ErrorCode.CLIENT_UNKNOWN),
    ],
)
def test_replies_that_cannot_be_delivered(bench: Bench, message: Message, wanted: ErrorCode) -> None:
    member(bench, "c")
    bench.ask(PutTopic(1, Topic("T")))
    event = only(Refused, bench.ask(SendReply(7, message)))
    assert event.failure.code is wanted
