"""SendMessage: one message or a batch of one topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from domain import limits
from domain.command import Command, Send
from domain.event import Event, Refused, Sent
from domain.message import SYS_PREPARED, Message
from protocols.grpc import status, translate_in, wire
from protocols.grpc.call import Call, CallContext, Method
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.translate_in import Refusal


def begin(context: CallContext, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Check the messages -> one Send. One invalid message refuses the request."""
    sent = pb.SendMessageRequest.FromString(body).messages
    count = len(sent)
    if count == 0:
        context.refuse(call, pb.MESSAGE_CORRUPTED, "the request has no messages")
        return ()
    topic = call.named(sent[0].topic)
    refusal = translate_in.topic_of(topic)
    if refusal is not None:
        context.refuse(call, *refusal)
        return ()
    wall_ms = context.setting.wall_ms()
    messages: list[Message] = []
    size = 0
    for one in sent:
        if count > 1 and call.named(one.topic) != topic:
            context.refuse(call, pb.MESSAGE_CORRUPTED, "the messages of one request have different topics")
            return ()
        message = translate_in.message(topic, one, call.origin, context.peer, wall_ms)
        if isinstance(message, Refusal):
            context.refuse(call, *message)
            return ()
        size += len(message.body)
        messages.append(message)
    if size > limits.BATCH_BYTES_MAX and count > 1:
        context.refuse(call, pb.PAYLOAD_TOO_LARGE, f"the bodies have {size} bytes together, 4,194,304 are allowed")
        return ()
    call.state = [message.sys_flag & SYS_PREPARED for message in messages]
    return (Send(context.ticket(call), messages, typed=True),)


def finish(context: CallContext, call: Call, event: Event, now: int) -> None:
    """Sent -> one result entry for each message, in order."""
    if isinstance(event, Refused):
        context.reply_failure(call, event.failure)
        return
    answer = status.STATUS_OK
    for placed, prepared in zip(cast(Sent, event).placed, cast(list[int], call.state), strict=True):
        message_id = placed.message_id.encode()
        entry = status.STATUS_OK + wire.text(b"\x12", message_id)
        if prepared:
            entry += wire.text(b"\x1a", message_id)
        if placed.queue_offset > 0:
            entry += b"\x20" + wire.varint(placed.queue_offset)
        if placed.recall_handle:
            entry += wire.text(b"\x2a", placed.recall_handle.encode())
        answer += wire.text(b"\x12", entry)
    context.reply(call, answer)


SEND_MESSAGE = Method("SendMessage", begin, finish)
