"""Transactions and recall over gRPC: half messages, commit and rollback, transaction checks on the Telemetry stream."""

from __future__ import annotations

import pytest

from domain.client.membership import Heartbeat
from domain.command import Send
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused, Sent
from domain.message import record
from domain.message.message import SYS_PREPARED, Message, Placed
from domain.message.property import decode
from domain.transaction import COMMIT, ROLLBACK, UNKNOWN, CheckTransaction, EndTransaction, Recalled, RecallMessage
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import WALL_MS, Stage, message


def producing(engine: EngineFactory) -> tuple[Stage, int]:
    """A producer of topic t that has exchanged its settings."""
    stage = Stage(engine)
    stream = stage.open_telemetry()
    sent = pb.Settings(client_type=pb.PRODUCER)
    sent.publishing.topics.add(name="t")
    stage.notify(stream, sent)
    stage.take(Heartbeat)
    return stage, stream


def test_a_half_message_is_marked_and_its_transaction_has_an_id(stage: Stage) -> None:
    half = message()
    half.system_properties.message_type = pb.TRANSACTION
    half.system_properties.orphaned_transaction_recovery_duration.seconds = 90
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[half]))
    command = stage.take(Send)
    assert command.typed
    sent = command.messages[0]
    assert sent.sys_flag == SYS_PREPARED
    found = decode(sent.properties)
    assert (found["TRAN_MSG"], found["PGROUP"], found["CHECK_IMMUNITY_TIME_IN_SECONDS"]) == ("true", "t", "90")
    stage.give(Sent(command.ticket, [Placed(0, 5, 900, 0, "01A0")]))
    entry = pb.SendMessageResponse.FromString(stage.messages(stream)[0]).entries[0]
    assert (entry.message_id, entry.transaction_id, entry.offset, entry.recall_handle) == ("01A0", "01A0", 5, "")
    half.system_properties.orphaned_transaction_recovery_duration.seconds = 3_601
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[half]))
    assert pb.SendMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.BAD_REQUEST


@pytest.mark.parametrize(
    ("resolution", "outcome"), [(pb.COMMIT, COMMIT), (pb.ROLLBACK, ROLLBACK), (pb.TRANSACTION_RESOLUTION_UNSPECIFIED, UNKNOWN)]
)
def test_a_decision_names_its_transaction(stage: Stage, resolution: pb.TransactionResolution, outcome: str) -> None:
    request = pb.EndTransactionRequest(message_id="M", transaction_id="M", resolution=resolution, source=pb.SOURCE_CLIENT)
    request.topic.name = "t"
    stream = stage.call("EndTransaction", request)
    command = stage.take(EndTransaction)
    assert command.wait
    assert (command.group, command.message_id, command.outcome, command.offset) == ("t", "M", outcome, -1)
    stage.give(Done(command.ticket))
    assert pb.EndTransactionResponse.FromString(stage.messages(stream)[0]).status.code == pb.OK


def test_a_decision_can_be_refused(stage: Stage) -> None:
    request = pb.EndTransactionRequest(message_id="M", resolution=pb.COMMIT)
    request.topic.name = "t"
    stream = stage.call("EndTransaction", request)
    assert pb.EndTransactionResponse.FromString(stage.messages(stream)[0]).status.code == pb.INVALID_TRANSACTION_ID
    request.transaction_id = "M"
    stream = stage.call("EndTransaction", request)
    command = stage.take(EndTransaction)
    stage.give(Refused(command.ticket, Failure(ErrorCode.MESSAGE_NOT_FOUND, "not open")))
    # The Python SDK treats MESSAGE_NOT_FOUND as success.
    assert pb.EndTransactionResponse.FromString(stage.messages(stream)[0]).status.code == pb.NOT_FOUND
    request.topic.name = "RMQ_SYS_TRACE_TOPIC"
    stream = stage.call("EndTransaction", request)
    assert pb.EndTransactionResponse.FromString(stage.messages(stream)[0]).status.code == pb.ILLEGAL_TOPIC


def test_the_question_goes_to_the_telemetry_stream_of_its_client(engine: EngineFactory) -> None:
    stage, stream = producing(engine)
    before = len(stage.messages(stream))
    stored = b"UNIQ_KEY\x01M1\x02TAGS\x01A\x02TRAN_MSG\x01true\x02PGROUP\x01t\x02__transactionId__\x01M1\x02own\x01x\x02"
    data = record.encode(Message("t", b"body", stored, queue_id=3, born_ms=5), 7, 900, 6, bytes(8))
    stage.give(CheckTransaction(None, "client-2", "t", "M1", data))
    assert len(stage.messages(stream)) == before
    stage.give(CheckTransaction(None, "client-1", "t", "M1", data))
    told = pb.TelemetryCommand.FromString(stage.messages(stream)[-1])
    assert told.WhichOneof("command") == "recover_orphaned_transaction_command"
    orphan = told.recover_orphaned_transaction_command
    assert orphan.transaction_id == "M1"
    assert (orphan.message.topic.name, orphan.message.body) == ("t", b"body")
    system = orphan.message.system_properties
    assert (system.message_id, system.tag, system.message_type) == ("M1", "A", pb.TRANSACTION)
    assert dict(orphan.message.user_properties) == {"own": "x"}


def test_a_producer_is_asked_where_its_telemetry_stream_is(engine: EngineFactory) -> None:
    stage, _ = producing(engine)
    stage.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
    command = stage.take(Heartbeat)
    assert command.producers == ["t"]
    stage.connect(engine)
    stage.call("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
    command = stage.take(Heartbeat)
    assert command.producers == []


def test_a_timer_has_a_handle_and_is_recalled_by_it(stage: Stage) -> None:
    timer = message()
    timer.system_properties.message_type = pb.DELAY
    timer.system_properties.delivery_timestamp.seconds = WALL_MS // 1000 + 60
    stream = stage.call("SendMessage", pb.SendMessageRequest(messages=[timer]))
    command = stage.take(Send)
    stage.give(Sent(command.ticket, [Placed(0, 5, 900, 0, "01A0", "handle")]))
    entry = pb.SendMessageResponse.FromString(stage.messages(stream)[0]).entries[0]
    assert (entry.recall_handle, entry.transaction_id) == ("handle", "")
    request = pb.RecallMessageRequest(recall_handle="handle")
    request.topic.name = "t"
    stream = stage.call("RecallMessage", request)
    recall = stage.take(RecallMessage)
    assert (recall.topic, recall.handle) == ("t", "handle")
    stage.give(Recalled(recall.ticket, "01A0"))
    told = pb.RecallMessageResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.message_id) == (pb.OK, "01A0")
    stream = stage.call("RecallMessage", request)
    recall = stage.take(RecallMessage)
    stage.give(Refused(recall.ticket, Failure(ErrorCode.MESSAGE_NOT_FOUND, "message 01A0 is due")))
    told = pb.RecallMessageResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.message_id) == (pb.NOT_FOUND, ""), "to the SDK for Python MESSAGE_NOT_FOUND is a success"
