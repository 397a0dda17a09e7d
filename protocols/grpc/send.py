"""SendMessage: one message or a batch of one topic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast, final

from domain import limits
from domain.command import Command, Send
from domain.event import Event, Refused, Sent
from domain.message.message import SYS_PREPARED, Message
from protocols.grpc import status, translate_in, wire
from protocols.grpc.call import FIELDS_MAX, MESSAGE_BYTES_MAX, Call, Method, OpenCalls
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.translate_in import Refusal

KEYS_MAX: Final = 16_384
"""Keys of the messages of a request: each becomes an entry of an index. Those of messages with few bytes are not counted."""
FEW_PROPERTIES_BYTES: Final = 256
INFLATED_BYTES_MIN: Final = 16 * 1024
"""Size of a decompressed body from which on its decompression is counted, a unit of work for each of these bytes; to store
bodies counts the same."""
WEIGHT_AT_ONCE: Final = 256
"""Work after which the other messages of a batch wait for the next turn of the loop."""


@final
class _Batch:
    """One SendMessage request.

    sent       its messages, as the generated classes have them
    size       bytes of their bodies, decompressed
    keys       their keys, of those with many properties
    wall_ms    time of the request, epoch milliseconds
    """

    __slots__ = ("keys", "messages", "sent", "size", "topic", "wall_ms")

    def __init__(self, topic: str, sent: Sequence[pb.Message], wall_ms: int) -> None:
        self.topic = topic
        self.sent = sent
        self.messages: list[Message] = []
        self.size = 0
        self.keys = 0
        self.wall_ms = wall_ms


def begin(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Check the messages -> one Send. One invalid message refuses the request. A large batch is checked over several turns."""
    sent = pb.SendMessageRequest.FromString(body).messages
    if len(sent) == 0:
        context.refuse(call, pb.MESSAGE_CORRUPTED, "the request has no messages")
        return ()
    if len(sent) > FIELDS_MAX:
        context.refuse(call, pb.BAD_REQUEST, f"the request has {len(sent)} messages, {FIELDS_MAX} are allowed")
        return ()
    topic = call.named(sent[0].topic)
    refusal = translate_in.topic_of(topic)
    if refusal is not None:
        context.refuse(call, *refusal)
        return ()
    return _check(context, call, _Batch(topic, sent, context.setting.wall_ms()), now)


def _check(context: OpenCalls, call: Call, batch: _Batch, now: int) -> Sequence[Command]:
    """Check the next messages of a batch -> its Send, when all are checked."""
    if context.is_closed(call):
        return ()
    sent, topic = batch.sent, batch.topic
    count = len(sent)
    weight = 0
    while True:
        if weight >= WEIGHT_AT_ONCE:
            # Also behind the last message: a large body is not decompressed and stored in one turn.
            context.backlog.charge(weight)
            context.backlog.go_on(partial(_check, context, call, batch))
            return ()
        if len(batch.messages) == count:
            break
        one = sent[len(batch.messages)]
        if count > 1 and call.named(one.topic) != topic:
            context.refuse(call, pb.MESSAGE_CORRUPTED, "the messages of one request have different topics")
            return ()
        read = translate_in.message(topic, one, call.origin, context.peer, batch.wall_ms, limits.BATCH_BYTES_MAX - batch.size)
        if isinstance(read, Refusal):
            context.refuse(call, *read)
            return ()
        message, size = read
        batch.size += size
        if len(message.properties) > FEW_PROPERTIES_BYTES:
            batch.keys += len(one.system_properties.keys)
            if batch.keys > KEYS_MAX:
                context.refuse(call, pb.MESSAGE_PROPERTIES_TOO_LARGE, f"the messages have more than {KEYS_MAX} keys together")
                return ()
        weight += 1 + (len(message.properties) >> 7)
        if size >= INFLATED_BYTES_MIN and one.system_properties.body_encoding == pb.GZIP:
            weight += size >> 14
        batch.messages.append(message)
    context.backlog.charge(weight + count + (batch.size >> 14))
    call.state = [message.sys_flag & SYS_PREPARED for message in batch.messages]
    return (Send(context.ticket(call), batch.messages, typed=True),)


def finish(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Sent -> one result entry for each message, in order."""
    if isinstance(event, Refused):
        context.reply_failure(call, event.failure)
        return
    answer = [status.STATUS_OK]
    for placed, prepared in zip(cast(Sent, event).placed, cast(list[int], call.state), strict=True):
        message_id = placed.message_id.encode()
        entry = status.STATUS_OK + wire.text(b"\x12", message_id)
        if prepared:
            entry += wire.text(b"\x1a", message_id)
        if placed.queue_offset > 0:
            entry += b"\x20" + wire.varint(placed.queue_offset)
        if placed.recall_handle:
            entry += wire.text(b"\x2a", placed.recall_handle.encode())
        answer.append(wire.text(b"\x12", entry))
    context.reply(call, b"".join(answer))


SEND_MESSAGE = Method("SendMessage", begin, finish, weight=1, bytes_max=MESSAGE_BYTES_MAX, bulk=1, bulk_inside=4)
