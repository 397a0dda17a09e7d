"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: settlement of received messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

from domain.command import Acknowledge, Command, DeadLetter, Extend
from domain.event import Event, Extended, Refused, Settled
from domain.message import receipt
from domain.message.receipt import Receipt
from domain.topic.lite import SuspendLite, split
from protocols.grpc import lite, status, translate_in, wire
from protocols.grpc.call import FIELDS_MAX, Call, Method, OpenCalls, finish_done
from protocols.grpc.messages import messaging_pb2 as pb

_UNREADABLE = "INVALID_RECEIPT_HANDLE: the receipt handle cannot be read, or has expired"
_ENTRY_OK = wire.text(b"\x1a", status.content(pb.OK))


def _receipt(context: OpenCalls, call: Call, handle: str, topic: str, lite_topic: str) -> tuple[Receipt | None, str]:
    """The receipt in force for a handle, None for a malformed handle; and the name of the queue that it is settled in.

    A lease under renewal gives both, and its renewal ends: some SDKs name the lite topic only when they acknowledge.
    """
    client = context.sessions.find(call.client_id)
    if client is not None and client.leases:
        lease = client.leases.get(handle)
        renewed = client.remove_lease(handle)
        if renewed is not None and lease is not None:
            return renewed, lease.topic
    return receipt.parse(handle), lite.named_queue(topic, lite_topic)


def _has_ended(found: Receipt, wall_ms: int) -> bool:
    """True when the invisible duration has passed, also when the message has not been redelivered (ReceiptHandle.isExpired)."""
    return found.pop_ms + found.invisible_ms <= wall_ms


@final
class _Acks:
    """One AckMessage request.

    entries    (message id, handle, queue) of each entry; queue "" for an invalid handle
    receipts   queue -> valid receipts, in the order of the entries
    outcomes   queue -> outcome of each receipt: None for success, else (code, text)
    open       number of queues without an outcome
    """

    __slots__ = ("entries", "open", "outcomes", "receipts")

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes, str]] = []
        self.receipts: dict[str, list[Receipt]] = {}
        self.outcomes: dict[str, list[tuple[int, str] | None]] = {}
        self.open = 0

    def add(self, message_id: bytes, handle: bytes, queue: str, found: Receipt | None) -> None:
        """Add an entry. `found` None: its handle is malformed or has expired."""
        self.entries.append((message_id, handle, queue if found is not None else ""))
        if found is not None:
            self.open = 1
            self.receipts.setdefault(queue, []).append(found)


def begin_ack(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One Acknowledge for each queue of the entries with a valid handle."""
    request = pb.AckMessageRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if context.refuses(call, translate_in.topic_of(topic) or translate_in.group_of(group)):
        return ()
    if len(request.entries) > FIELDS_MAX:
        context.refuse(call, pb.BAD_REQUEST, f"the request has {len(request.entries)} entries, {FIELDS_MAX} are allowed")
        return ()
    context.backlog.charge(len(request.entries))
    acks = call.state = _Acks()
    wall_ms = context.setting.wall_ms()
    for entry in request.entries:
        handle = entry.receipt_handle
        found, queue = _receipt(context, call, handle, topic, entry.lite_topic)
        if found is None or _has_ended(found, wall_ms):
            found = None
            context.setting.refused("grpc", status.REFUSALS[pb.INVALID_RECEIPT_HANDLE])
        acks.add(entry.message_id.encode(), handle.encode(), queue, found)
    if not acks.open:
        if acks.entries:
            _answer_ack(context, call, acks)
        else:
            context.refuse(call, pb.INTERNAL_SERVER_ERROR, "the request has no entries")
        return ()
    acks.open = len(acks.receipts)
    return [Acknowledge(context.ticket_of(call, queue), group, queue, receipts) for queue, receipts in acks.receipts.items()]


def finish_ack(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Settled -> one status for each entry."""
    acks = cast(_Acks, call.state)
    if isinstance(event, Refused):
        if len(acks.receipts) == 1:
            context.reply_failure(call, event.failure)
            return
        queue = cast(tuple[object, object, str], event.ticket)[2]
        acks.outcomes[queue] = [status.of(event.failure)] * len(acks.receipts[queue])
    else:
        settled = cast(Settled, event)
        queue = cast(tuple[object, object, str], settled.ticket)[2]
        acks.outcomes[queue] = [None if outcome is None else status.of(outcome) for outcome in settled.outcomes]
    acks.open -= 1
    if acks.open == 0:
        _answer_ack(context, call, acks)


def _answer_ack(context: OpenCalls, call: Call, acks: _Acks) -> None:
    """Answer all entries. The Status of the response is theirs when all have the same code, else MULTIPLE_RESULTS."""
    rest = {queue: iter(outcomes) for queue, outcomes in acks.outcomes.items()}
    codes: set[int] = set()
    top = b""
    answer: list[bytes] = []
    for message_id, handle, queue in acks.entries:
        outcome = next(rest[queue]) if queue else (pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        if outcome is None:
            codes.add(pb.OK)
            top = status.STATUS_OK
            status_field = _ENTRY_OK
        else:
            codes.add(outcome[0])
            top = status.status(*outcome)
            status_field = wire.text(b"\x1a", status.content(*outcome))
        answer.append(wire.text(b"\x12", wire.text(b"\x0a", message_id) + wire.text(b"\x12", handle) + status_field))
    if len(codes) > 1:
        top = status.status(pb.MULTIPLE_RESULTS)
    context.reply(call, top + b"".join(answer))


def begin_change(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One Extend; a duration of 0 makes the message visible at once."""
    request = pb.ChangeInvisibleDurationRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if context.refuses(call, translate_in.topic_of(topic) or translate_in.group_of(group)):
        return ()
    call.state = request.receipt_handle
    invisible_ms = request.invisible_duration.seconds * 1000 + request.invisible_duration.nanos // 1_000_000
    refusal = translate_in.invisible_time(invisible_ms, 0)
    if refusal is not None:
        context.setting.refused("grpc", status.REFUSALS[pb.ILLEGAL_INVISIBLE_TIME])
        _refuse_change(context, call, *refusal)
        return ()
    found, queue = _receipt(context, call, request.receipt_handle, topic, request.lite_topic)
    if found is None or _has_ended(found, context.setting.wall_ms()):
        context.setting.refused("grpc", status.REFUSALS[pb.INVALID_RECEIPT_HANDLE])
        _refuse_change(context, call, pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        return ()
    if request.suspend and queue != topic:
        return (SuspendLite(context.ticket(call), group, *split(queue), found, invisible_ms),)
    return (Extend(context.ticket(call), group, queue, [found], invisible_ms),)


def finish_change(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Extended -> the new handle."""
    if isinstance(event, Refused):
        _refuse_change(context, call, *status.of(event.failure))
        return
    outcome = cast(Extended, event).outcomes[0]
    if isinstance(outcome, Receipt):
        context.reply(call, status.STATUS_OK + wire.text(b"\x12", outcome.text().encode()))
    else:
        _refuse_change(context, call, *status.of(outcome))


def _refuse_change(context: OpenCalls, call: Call, code: int, text: str) -> None:
    """Refuse, with the handle of the request: some SDKs use the returned handle without reading the status."""
    context.reply(call, status.status(code, text) + wire.text(b"\x12", cast(str, call.state).encode()))


def begin_forward(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One DeadLetter."""
    request = pb.ForwardMessageToDeadLetterQueueRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if context.refuses(call, translate_in.topic_of(topic) or translate_in.group_of(group)):
        return ()
    found, queue = _receipt(context, call, request.receipt_handle, topic, request.lite_topic)
    if found is None:
        context.refuse(call, pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        return ()
    return (DeadLetter(context.ticket(call), group, queue, found),)


ACK_MESSAGE = Method("AckMessage", begin_ack, finish_ack)
CHANGE_INVISIBLE_DURATION = Method("ChangeInvisibleDuration", begin_change, finish_change)
FORWARD_MESSAGE = Method("ForwardMessageToDeadLetterQueue", begin_forward, finish_done)
