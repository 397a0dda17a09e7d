"""ReceiveMessage: a long poll, answered with messages or with MESSAGE_NOT_FOUND."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast, final

from domain import limits
from domain.admin.group import GroupFound, QueryGroup
from domain.command import Command, Extend, Receive
from domain.errors import Failure
from domain.event import Event, Leased, Received, Refused
from domain.filter.filter import SQL92, TAG, Filter
from domain.filter.sql import EXPRESSION_CHARS_MAX
from domain.filter.tag import TAGS_CHARS_MAX
from domain.message.receipt import Receipt
from domain.message.record import beside_body
from domain.topic.attribute import BIND_TOPIC
from protocols.grpc import framing, lite, status, translate_in, translate_out, wire
from protocols.grpc.call import Call, Method, OpenCalls
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.renewal import INVISIBLE_MS
from protocols.grpc.session import Client
from protocols.grpc.translate_in import Refusal

POLLING_MIN_NS: Final = 5 * limits.SECOND_NS
POLLING_MAX_NS: Final = 20 * limits.SECOND_NS
MARGIN_NS: Final = 100 * limits.MILLISECOND_NS
"""Time from the answer to the caller's deadline, so that an empty answer arrives before the deadline."""
INVISIBLE_MS_MIN: Final = 10_000
WEIGHT_AT_ONCE: Final = 256
"""Work after which the other messages of an answer wait for the next turn of the loop."""

_FILTER_TYPES: Final = {pb.FILTER_TYPE_UNSPECIFIED: TAG, pb.TAG: TAG, pb.SQL: SQL92}

_OK: Final = framing.frame(status.STATUS_OK)
_NONE: Final = framing.frame(status.status(pb.MESSAGE_NOT_FOUND, "no new message"))


@final
class _Poll:
    """The fields of a request that its answer needs.

    client        the polling client; None: it has sent no settings yet
    topic_field   the encoded topic, as the request has it
    renew         True: its leases are renewed (`auto_renew`)
    """

    __slots__ = ("client", "lite", "receive", "renew", "topic_field")

    def __init__(self, client: Client | None, receive: Receive, topic_field: bytes, renew: bool) -> None:
        self.client = client
        self.receive = receive
        self.topic_field = topic_field
        self.renew = renew
        self.lite = client is not None and client.kind == pb.LITE_PUSH_CONSUMER

    def queue(self, leased: Leased) -> str:
        """The topic or lite queue that a message is settled in."""
        return lite.queue_of(self.receive.topic, leased) if self.lite else self.receive.topic


def begin(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Check the request -> one Receive; QueryGroup first for a client without settings.

    The first poll of some SDKs arrives before their settings; the group then decides whether it is orderly.
    """
    request = pb.ReceiveMessageRequest.FromString(body)
    client = context.sessions.find(call.client_id)
    group, queue = call.named(request.group), request.message_queue
    topic = call.named(queue.topic)
    wait_ns = _wait_ns(call, client, request, now)
    refusal = wait_ns if isinstance(wait_ns, Refusal) else translate_in.topic_of(topic) or translate_in.group_of(group)
    renew: bool = request.auto_renew
    invisible = request.invisible_duration
    invisible_ms = INVISIBLE_MS if renew else invisible.seconds * 1000 + invisible.nanos // 1_000_000
    if refusal is None:
        refusal = translate_in.invisible_time(invisible_ms, INVISIBLE_MS_MIN)
    wanted = filter_of(context, request.filter_expression)
    if refusal is None and isinstance(wanted, Refusal):
        refusal = wanted
    if refusal is not None:
        context.refuse(call, *refusal)
        return ()
    fifo = client is not None and client.fifo
    receive = Receive(
        context.ticket(call),
        group,
        topic,
        min(max(request.batch_size, 1), limits.RECEIVE_MESSAGES_MAX),
        invisible_ms,
        wait_ms=cast(int, wait_ns) // limits.MILLISECOND_NS,
        # Only a FIFO push consumer polls one queue at a time; other SDKs name the next queue of their rotation.
        queue_id=queue.id if fifo and renew and queue.id >= 0 else -1,
        filter=cast(Filter | None, wanted),
        from_first=True,
        ordered=fifo,
        attempt_id=request.attempt_id,
        client_id=call.client_id,
    )
    call.state = _Poll(client, receive, translate_out.topic_field(queue.topic), renew)
    if client is not None and client.kind == pb.LITE_PUSH_CONSUMER:
        return lite.poll(context, call, client, receive)
    return (receive,) if client is not None else (QueryGroup(receive.ticket, group),)


def finish(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Received -> status, messages, delivery timestamp.

    Messages are released at once when the call is closed, or when too many answers of the connection are unsent.
    """
    poll = cast(_Poll, call.state)
    receive = poll.receive
    if isinstance(event, GroupFound):
        receive.ordered = event.group.orderly
        if context.is_closed(call):
            return
        if event.group.attributes.get(BIND_TOPIC) == receive.topic:
            context.refuse(call, pb.UNRECOGNIZED_CLIENT_TYPE, f"client {call.client_id} has sent no settings yet")
        else:
            queued: Command = receive
            if call.principal is not None:
                # QueryGroup was authorised for the group; Receive is authorised for the topic, again with this principal.
                queued.principal = call.principal
            context.enqueue(queued)
        return
    if isinstance(event, Refused):
        if not context.is_closed(call):
            code, text = status.of(event.failure)
            context.reply_frames(call, framing.frame(status.status(code, text)) + _delivery_timestamp(context))
        return
    if not isinstance(event, Received):
        return  # the event of a release: the call has been answered
    messages = event.messages
    if context.is_closed(call):
        _release(context, call, poll, messages)
        return
    if context.output.is_full() and sum([len(leased.record) for leased in messages]) > limits.SMALL_ANSWER_BYTES:
        _refuse_unread(context, call, poll, messages)
        return
    if not messages:
        context.reply_frames(call, _NONE + _delivery_timestamp(context))
        return
    if translate_out.is_dear(messages):
        context.backlog.add(partial(_answer_dear, context, call, messages, [], 0))
        return
    frames = [_OK]
    for leased in messages:
        handle = leased.receipt.text()
        message = translate_out.message(poll.topic_field, leased, handle)
        frames.append(framing.frame(wire.text(b"\x12", message)))
        if poll.renew and poll.client is not None:
            context.renewals.add(poll.client, handle, leased, receive.group, poll.queue(leased), now)
    frames.append(_delivery_timestamp(context))
    context.reply_frames(call, b"".join(frames))


def _answer_dear(
    context: OpenCalls, call: Call, messages: Sequence[Leased], frames: list[bytes], size: int, now: int
) -> Sequence[Command]:
    """Encode the next messages of an answer; its turns are those of the backlog.

    Compressed bodies become up to a thousand times larger: the answer ends with the message that reaches RECEIVE_BYTES_MAX,
    and the others are released.
    """
    poll = cast(_Poll, call.state)
    if context.is_closed(call):
        _release(context, call, poll, messages)
        return ()
    if not frames and context.output.is_full():
        _refuse_unread(context, call, poll, messages)
        return ()
    weight = 0
    while len(frames) < len(messages) and size < limits.RECEIVE_BYTES_MAX:
        if weight >= WEIGHT_AT_ONCE:
            context.backlog.charge(weight)
            context.backlog.go_on(partial(_answer_dear, context, call, messages, frames, size))
            return ()
        leased = messages[len(frames)]
        message = translate_out.message(poll.topic_field, leased, leased.receipt.text())
        size += len(message)
        weight += 1 + (beside_body(leased.record) >> 7) + (len(message) >> 14)
        frames.append(framing.frame(wire.text(b"\x12", message)))
    context.backlog.charge(weight)
    sent = messages[: len(frames)]
    if len(sent) < len(messages):
        _release(context, call, poll, messages[len(frames) :])
    if poll.renew and poll.client is not None:
        for leased in sent:
            context.renewals.add(poll.client, leased.receipt.text(), leased, poll.receive.group, poll.queue(leased), now)
    context.reply_frames(call, b"".join([_OK, *frames, _delivery_timestamp(context)]))
    return ()


def _refuse_unread(context: OpenCalls, call: Call, poll: _Poll, messages: Sequence[Leased]) -> None:
    """Answer a poll without its messages: many may be answered in one moment. SDKs poll again within a second."""
    _release(context, call, poll, messages)
    unsent = context.output.pending(0)
    text = f"{unsent} bytes of answers, and those of other connections, wait to be read: read them, and ask again"
    context.refuse(call, pb.TOO_MANY_REQUESTS, text)


def _release(context: OpenCalls, call: Call, poll: _Poll, messages: Sequence[Leased]) -> None:
    """Release leases whose messages are not sent: other members of the group may receive them at once."""
    given: dict[str, list[Receipt]] = {}
    for leased in messages:
        given.setdefault(poll.queue(leased), []).append(leased.receipt)
    for name, receipts in given.items():
        context.enqueue(Extend(context.ticket(call), poll.receive.group, name, receipts, 0, untold=True))


def filter_of(context: OpenCalls, expression: pb.FilterExpression) -> Filter | Refusal | None:
    """The filter of an expression, None when it matches everything. An expression without a type is of type TAG."""
    kind = _FILTER_TYPES.get(expression.type) or f"number {expression.type}"
    text = expression.expression
    most = EXPRESSION_CHARS_MAX if expression.type == pb.SQL else TAGS_CHARS_MAX
    if len(text) > most:
        return Refusal(pb.ILLEGAL_FILTER_EXPRESSION, f"a filter of {len(text)} characters, {most} are allowed")
    context.backlog.charge(len(text) >> 3)
    found = context.sessions.filters.compile(kind, text)
    return Refusal(*status.of(found)) if isinstance(found, Failure) else found


def _wait_ns(call: Call, client: Client | None, request: pb.ReceiveMessageRequest, now: int) -> int | Refusal:
    """Waiting time: as requested, from 5 to 20 s, and within the call's deadline (ReceiveMessageActivity)."""
    left = call.deadline - now if call.deadline >= 0 else -1
    if request.HasField("long_polling_timeout"):
        polling = request.long_polling_timeout.seconds * limits.SECOND_NS + request.long_polling_timeout.nanos
    else:
        spare = client.request_timeout_ns // 2 if client is not None else 0
        polling = left - spare if left >= 0 else POLLING_MAX_NS
    polling = int(min(max(polling, POLLING_MIN_NS), POLLING_MAX_NS))
    if left < 0 or left >= polling + MARGIN_NS:
        return polling
    if left >= POLLING_MIN_NS - MARGIN_NS:
        return left - MARGIN_NS
    code = pb.ILLEGAL_POLLING_TIME if call.version >= "5.0.3" else pb.BAD_REQUEST
    return Refusal(code, "the deadline leaves less than the 5 seconds that a poll takes at least")


def _delivery_timestamp(context: OpenCalls) -> bytes:
    return framing.frame(wire.timestamp(b"\x1a", context.setting.wall_ms()))


RECEIVE_MESSAGE = Method("ReceiveMessage", begin, finish, weight=128)
