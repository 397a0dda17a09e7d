"""Inquiries of tools to a gRPC client on its Telemetry stream, and the client's figures for tools."""

from __future__ import annotations

import orjson
import pytest

from domain.admin.group import GroupFound, QueryGroup
from domain.client.client_inquiry import ClientAnswered, ConsumptionRequest, Inquiry, PositionsRequest, RunningInfoRequest
from domain.client.membership import Heartbeat
from domain.errors import Failure
from domain.topic.topic import Group
from protocols.grpc import inquiry
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.session import HIGHER_VERSION, ordinal
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import WALL_MS, Stage, consumer, leased, prefixed, telling
from tests.protocols.http2.peer import PEER


def consuming(engine: EngineFactory, settings: pb.Settings | None = None) -> tuple[Stage, int, Heartbeat]:
    """A push consumer that has exchanged its settings."""
    stage, stream = telling(engine, settings or consumer(pb.PUSH_CONSUMER))
    heartbeat, query = stage.take_all()
    assert isinstance(heartbeat, Heartbeat)
    assert isinstance(query, QueryGroup)
    stage.give(GroupFound(query.ticket, Group(query.group)))
    return stage, stream, heartbeat


def asked(stage: Stage, stream: int) -> pb.TelemetryCommand:
    command: pb.TelemetryCommand = pb.TelemetryCommand.FromString(stage.messages(stream)[-1])
    return command


def say(stage: Stage, stream: int, command: pb.TelemetryCommand) -> list[object]:
    stage.client.connection.send_data(stream, prefixed(command.SerializeToString()))
    stage.client.exchange()
    return list(stage.take_all())


def test_a_client_has_address_language_and_version(engine: EngineFactory) -> None:
    _, _, heartbeat = consuming(engine)
    assert (heartbeat.language, heartbeat.version, heartbeat.address) == ("JAVA", 453, f"{PEER.host}:{PEER.port}")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5.0.0", 413),
        ("5.2.0", 453),
        ("v5.1.3", 439),
        ("5.5.0", 513),
        ("5.0.4-beta", 421),
        ("5.10.0", HIGHER_VERSION),
        ("", HIGHER_VERSION),
    ],
)
def test_a_version_is_its_ordinal(text: str, version: int) -> None:
    assert ordinal(text) == version


def test_running_info_is_what_the_settings_say(engine: EngineFactory) -> None:
    settings = consumer(pb.PUSH_CONSUMER)
    settings.subscription.subscriptions[0].expression.expression = "A || B"
    stage, stream, _ = consuming(engine, settings)
    before = len(stage.messages(stream))
    stage.give(Inquiry(None, 7, "client-1", RunningInfoRequest("g", False)))
    answer = stage.expire_one(stage.now, ClientAnswered)
    assert isinstance(answer.answer, bytes)
    found = orjson.loads(answer.answer)
    assert answer.serial == 7
    assert len(stage.messages(stream)) == before
    assert found["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert found["properties"]["PROP_CLIENT_VERSION"] == "V5_2_0"
    assert found["properties"]["PROP_CONSUMER_START_TIMESTAMP"] == str(WALL_MS)
    (subscription,) = found["subscriptionSet"]
    assert (subscription["topic"], subscription["tagsSet"], subscription["codeSet"]) == ("t", ["A", "B"], [65, 66])
    assert "jstack" not in found


def test_stacks_come_from_the_client(engine: EngineFactory) -> None:
    stage, stream, _ = consuming(engine)
    stage.give(Inquiry(None, 8, "client-1", RunningInfoRequest("g", True)))
    nonce = asked(stage, stream).print_thread_stack_trace_command.nonce
    said = pb.TelemetryCommand()
    said.thread_stack_trace.nonce = nonce
    said.thread_stack_trace.thread_stack_trace = "main\n  at Listener"
    (answer,) = say(stage, stream, said)
    assert isinstance(answer, ClientAnswered)
    assert isinstance(answer.answer, bytes)
    assert (answer.serial, orjson.loads(answer.answer)["jstack"]) == (8, "main\n  at Listener")
    assert say(stage, stream, said) == []


@pytest.mark.parametrize(
    ("code", "result"),
    [(pb.OK, "CR_SUCCESS"), (pb.FAILED_TO_CONSUME_MESSAGE, "CR_LATER"), (pb.MESSAGE_CORRUPTED, "CR_RETURN_NULL")],
)
def test_a_message_is_consumed_directly(engine: EngineFactory, code: pb.Code, result: str) -> None:
    stage, stream, _ = consuming(engine)
    stage.give(Inquiry(None, 9, "client-1", ConsumptionRequest("g", leased(b"look").record, "ID")))
    command = asked(stage, stream).verify_message_command
    assert (command.message.topic.name, command.message.body) == ("t", b"look")
    said = pb.TelemetryCommand()
    said.status.code = code
    said.verify_message_result.nonce = command.nonce
    stage.client.now = stage.now = stage.now + 3_000_000
    (answer,) = say(stage, stream, said)
    assert isinstance(answer, ClientAnswered)
    assert isinstance(answer.answer, bytes)
    found = orjson.loads(answer.answer)
    assert (answer.serial, found["consumeResult"], found["spentTimeMills"]) == (9, result, 3)


def test_the_question_itself_as_its_answer_is_an_answer(engine: EngineFactory) -> None:
    stage, stream, _ = consuming(engine)
    stage.give(Inquiry(None, 9, "client-1", ConsumptionRequest("g", leased(b"look").record, "ID")))
    said = asked(stage, stream)
    (answer,) = say(stage, stream, said)
    assert isinstance(answer, ClientAnswered)
    assert isinstance(answer.answer, bytes)


def test_what_a_client_does_not_do_is_told_in_words(engine: EngineFactory) -> None:
    stage, stream, _ = consuming(engine)
    stage.give(Inquiry(None, 9, "client-1", ConsumptionRequest("g", leased(b"look").record, "ID")))
    said = pb.TelemetryCommand()
    said.status.code = pb.VERIFY_FIFO_MESSAGE_UNSUPPORTED
    said.status.message = "no"
    said.verify_message_result.nonce = asked(stage, stream).verify_message_command.nonce
    (answer,) = say(stage, stream, said)
    assert isinstance(answer, ClientAnswered)
    assert isinstance(answer.answer, Failure)
    assert "VERIFY_FIFO_MESSAGE_UNSUPPORTED no" in answer.answer.text
    for about, word in ((PositionsRequest("g", "t"), "no words"), (RunningInfoRequest("g", True), "no Telemetry")):
        client = "client-1" if isinstance(about, PositionsRequest) else "somebody else"
        stage.give(Inquiry(None, 11, client, about))
        told = stage.expire_one(stage.now, ClientAnswered)
        assert isinstance(told.answer, Failure)
        assert word in told.answer.text


def test_answers_to_nothing_are_let_go(engine: EngineFactory) -> None:
    stage, stream, _ = consuming(engine)
    for nonce in ("", "x", "-1", "12", "9" * 40, "\u0661"):
        said = pb.TelemetryCommand()
        said.thread_stack_trace.nonce = nonce
        assert say(stage, stream, said) == []


def test_questions_are_bounded(engine: EngineFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "PENDING_MAX", 2)
    stage, stream, _ = consuming(engine)
    for serial in (1, 2, 3):
        stage.give(Inquiry(None, serial, "client-1", RunningInfoRequest("g", True)))
    answered = []
    for serial in (1, 2, 3):
        said = pb.TelemetryCommand()
        said.thread_stack_trace.nonce = str(serial)
        answered += [each.serial for each in say(stage, stream, said) if isinstance(each, ClientAnswered)]
    assert answered == [2, 3]
