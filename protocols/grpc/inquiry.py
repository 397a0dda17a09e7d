"""Inquiries of tools to a client, sent on its Telemetry stream, and the client's answers (RocketMQ's GrpcClientChannel).

    running information     answered from the client's settings; with stacks, print_thread_stack_trace_command is sent first
    consume one message     verify_message_command
    positions, replies      not in this protocol: answered with a Failure

Answers are RocketMQ's ConsumerRunningInfo and ConsumeMessageDirectlyResult as JSON, the format of its tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import orjson

from domain import limits
from domain.client.client_inquiry import ClientAnswered, ConsumptionRequest, Inquiry, RunningInfoRequest
from domain.client.membership import Subscription
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.filter.filter import TAG
from domain.filter.tag import tag_hash
from protocols.grpc import translate_out
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.session import HIGHER_VERSION, V5_0_0, Client

PENDING_MAX: Final = 4_096
"""Unanswered inquiries of one connection; beyond, the oldest is dropped."""
RESULTS: Final[Mapping[int, str]] = {
    pb.OK: "CR_SUCCESS",
    pb.FAILED_TO_CONSUME_MESSAGE: "CR_LATER",
    pb.MESSAGE_CORRUPTED: "CR_RETURN_NULL",
}
"""Status code of a client's answer -> RocketMQ's CMResult. With any other code the client has not consumed the message."""


@final
class Inquiries:
    """Unanswered inquiries to the clients of one connection, by serial, which is the nonce of the command."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[Inquiry, Client, int]] = {}

    def ask(self, event: Inquiry, client: Client | None, now: int) -> bytes | ClientAnswered:
        """The TelemetryCommand of an inquiry, or its answer when the client need not be asked.

        `client` None: the client has no Telemetry stream on this connection.
        """
        about = event.about
        if client is None:
            return _failure(event, "has no Telemetry stream on the connection by which it was heard last")
        if isinstance(about, RunningInfoRequest):
            if not about.stacks:
                return ClientAnswered(event.serial, running_info(client, ""))
            command = pb.TelemetryCommand()
            command.print_thread_stack_trace_command.nonce = str(event.serial)
        elif isinstance(about, ConsumptionRequest):
            command = pb.TelemetryCommand()
            command.verify_message_command.nonce = str(event.serial)
            command.verify_message_command.message.MergeFromString(translate_out.unleased(about.record, client.resource))
        else:
            return _failure(event, "speaks gRPC, which has no words for that question")
        command.status.code = pb.OK
        if len(self._pending) >= PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        self._pending[event.serial] = (event, client, now)
        return cast(bytes, command.SerializeToString())

    def read_answer(self, command: pb.TelemetryCommand, now: int) -> Sequence[Command]:
        """A TelemetryCommand of a client -> ClientAnswered, when its nonce is of a pending inquiry.

        The Node.js SDK answers in the field of the inquiry, `verify_message_command`.
        """
        kind = command.WhichOneof("command")
        if kind not in ("thread_stack_trace", "verify_message_result", "verify_message_command"):
            return ()
        nonce: str = getattr(command, kind).nonce
        found = self._pending.pop(int(nonce), None) if nonce.isascii() and nonce.isdigit() and len(nonce) < 20 else None
        if found is None:
            return ()
        event, client, asked_ns = found
        if isinstance(event.about, RunningInfoRequest):
            if kind != "thread_stack_trace":
                return (_failure(event, "answered another question"),)
            return (ClientAnswered(event.serial, running_info(client, command.thread_stack_trace.thread_stack_trace)),)
        result = RESULTS.get(command.status.code)
        if result is None:
            code = command.status.code
            name = pb.Code.Name(code) if code in pb.Code.values() else str(code)
            return (_failure(event, f"did not consume it: {name} {command.status.message}".rstrip()),)
        answer = {
            "autoCommit": True,
            "consumeResult": result,
            "order": client.fifo,
            "remark": command.status.message,
            "spentTimeMills": max(0, now - asked_ns) // limits.MILLISECOND_NS,
        }
        return (ClientAnswered(event.serial, orjson.dumps(answer)),)


def _failure(event: Inquiry, why: str) -> ClientAnswered:
    return ClientAnswered(event.serial, Failure(ErrorCode.GROUP_OFFLINE, f"the client <{event.client_id}> {why}"))


def running_info(client: Client, stacks: str) -> bytes:
    """A ConsumerRunningInfo from the client's settings. Its queues and rates stay empty: clients do not report them."""
    about: dict[str, Any] = {
        "mqPopTable": {},
        "mqTable": {},
        "properties": {
            "PROP_CLIENT_VERSION": _version(client.version),
            "PROP_CONSUMEORDERLY": "true" if client.fifo else "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(client.since_ms),
            "PROP_CONSUME_TYPE": client.consume_type,
            "PROP_THREADPOOL_CORE_SIZE": "0",
        },
        "statusTable": {},
        "subscriptionSet": [_subscription(each) for each in client.subscriptions],
        "userConsumerInfo": {},
    }
    if stacks:
        about["jstack"] = stacks
    return orjson.dumps(about)


def _version(version: int) -> str:
    """The name of an ordinal in RocketMQ's MQVersion."""
    if version == HIGHER_VERSION:
        return "HIGHER_VERSION"
    minor, patch = divmod((version - V5_0_0) // 2, 10)
    return f"V5_{minor}_{patch}"


def _subscription(subscription: Subscription) -> dict[str, Any]:
    """A subscription as RocketMQ's SubscriptionData."""
    text = subscription.expression
    by_tag = subscription.expression_type == TAG
    tags = [each.strip() for each in text.split("||") if each.strip()] if by_tag and text != "*" else []
    return {
        "classFilterMode": False,
        "codeSet": [tag_hash(each) for each in tags],
        "expressionType": subscription.expression_type,
        "subString": text,
        "subVersion": subscription.version,
        "tagsSet": tags,
        "topic": subscription.topic,
    }
