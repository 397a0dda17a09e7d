"""EndTransaction, RecallMessage, and the check of an orphaned transaction, which is sent on a Telemetry stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from domain.command import Command
from domain.event import Event, Refused
from domain.transaction import COMMIT, ROLLBACK, UNKNOWN, CheckTransaction, EndTransaction, Recalled, RecallMessage
from protocols.grpc import status, translate_in, translate_out, wire
from protocols.grpc.call import Call, Method, OpenCalls, finish_done
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.session import Client, resource_of

_OUTCOMES: Final[dict[int, str]] = {pb.COMMIT: COMMIT, pb.ROLLBACK: ROLLBACK}


def begin_end(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One EndTransaction. The producer group is the topic, as in RocketMQ's proxy."""
    request = pb.EndTransactionRequest.FromString(body)
    topic = call.named(request.topic)
    if context.refuses(call, translate_in.topic_of(topic)):
        return ()
    transaction_id: str = request.transaction_id
    if not transaction_id.strip():
        context.refuse(call, pb.INVALID_TRANSACTION_ID, "the transaction has no id")
        return ()
    outcome = _OUTCOMES.get(request.resolution, UNKNOWN)
    return (EndTransaction(context.ticket(call), topic, transaction_id, outcome),)


def begin_recall(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One RecallMessage."""
    request = pb.RecallMessageRequest.FromString(body)
    topic = call.named(request.topic)
    if context.refuses(call, translate_in.topic_of(topic)):
        return ()
    return (RecallMessage(context.ticket(call), topic, request.recall_handle),)


def finish_recall(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Recalled -> OK and the message id."""
    if isinstance(event, Refused):
        context.reply_failure(call, event.failure)
    else:
        context.reply(call, status.STATUS_OK + wire.text(b"\x12", cast(Recalled, event).message_id.encode()))


def check_command(event: CheckTransaction, client: Client | None) -> bytes:
    """A TelemetryCommand with recover_orphaned_transaction_command. A client that knows the outcome calls EndTransaction."""
    message = translate_out.unleased(event.record, resource_of if client is None else client.resource)
    command = wire.text(b"\x0a", message) + wire.text(b"\x12", event.message_id.encode())
    return status.STATUS_OK + wire.text(b"\x2a", command)


END_TRANSACTION = Method("EndTransaction", begin_end, finish_done)
RECALL_MESSAGE = Method("RecallMessage", begin_recall, finish_recall)
