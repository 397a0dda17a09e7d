"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: what a consumer says of a message that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from domain import limits, receipt
from domain.command import Acknowledge, Command, DeadLetter, Extend
from domain.event import Event, Extended, Refused, Settled
from domain.receipt import Receipt
from protocols.grpc import status, translate_in, wire
from protocols.grpc.call import Call, Desk, Verb
from protocols.grpc.messages import messaging_pb2 as pb

_UNREADABLE = "the receipt handle is not one of ours"
_ENTRY_OK = wire.text(b"\x1a", status.content(pb.OK))


def _receipt(desk: Desk, call: Call, handle: str) -> Receipt | None:
    """The receipt in force for a handle: the renewed one where its lease was renewed, which ends the renewal."""
    client = desk.sessions.find(call.client_id)
    if client is not None and client.leases:
        renewed = client.release(handle)
        if renewed is not None:
            return renewed
    return receipt.parse(handle)


def _checked(desk: Desk, call: Call, topic: str, group: str) -> bool:
    refusal = translate_in.topic_of(topic) or translate_in.group_of(group)
    if refusal is not None:
        desk.refuse(call, *refusal)
    return refusal is None


def begin_ack(desk: Desk, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Entries with a readable handle -> one Acknowledge; the others are answered for without it."""
    request = pb.AckMessageRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if not _checked(desk, call, topic, group):
        return ()
    entries: list[tuple[bytes, bytes, bool]] = []
    receipts: list[Receipt] = []
    for entry in request.entries:
        handle = entry.receipt_handle
        found = _receipt(desk, call, handle)
        if found is not None:
            receipts.append(found)
        entries.append((entry.message_id.encode(), handle.encode(), found is not None))
    call.state = entries
    if not receipts:
        if entries:
            _answer_ack(desk, call, entries, [])
        else:
            desk.refuse(call, pb.INTERNAL_SERVER_ERROR, "the request has no entries")
        return ()
    return (Acknowledge(desk.ticket(call), group, topic, receipts),)


def finish_ack(desk: Desk, call: Call, event: Event, now: int) -> None:
    """Settled -> one status an entry."""
    if isinstance(event, Refused):
        desk.refuse(call, *status.of(event.failure))
        return
    outcomes = [None if outcome is None else status.of(outcome) for outcome in cast(Settled, event).outcomes]
    _answer_ack(desk, call, cast(list[tuple[bytes, bytes, bool]], call.state), outcomes)


def _answer_ack(
    desk: Desk, call: Call, entries: list[tuple[bytes, bytes, bool]], outcomes: Sequence[tuple[int, str] | None]
) -> None:
    """`outcomes`: None or (code, text) a readable entry. One code over all is the answer's code, else MULTIPLE_RESULTS."""
    rest = iter(outcomes)
    codes: set[int] = set()
    top = b""
    answer = b""
    for message_id, handle, readable in entries:
        outcome = next(rest) if readable else (pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        if outcome is None:
            codes.add(pb.OK)
            top = status.STATUS_OK
            told = _ENTRY_OK
        else:
            codes.add(outcome[0])
            top = status.status(*outcome)
            told = wire.text(b"\x1a", status.content(*outcome))
        answer += wire.text(b"\x12", wire.text(b"\x0a", message_id) + wire.text(b"\x12", handle) + told)
    if len(codes) > 1:
        top = status.status(pb.MULTIPLE_RESULTS)
    desk.reply(call, top + answer)


def begin_change(desk: Desk, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One Extend; 0 makes the message visible at once."""
    request = pb.ChangeInvisibleDurationRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if not _checked(desk, call, topic, group):
        return ()
    call.state = request.receipt_handle
    invisible_ms = request.invisible_duration.seconds * 1000 + request.invisible_duration.nanos // 1_000_000
    if not 0 <= invisible_ms <= limits.INVISIBLE_MS_MAX:
        _refuse_change(desk, call, pb.ILLEGAL_INVISIBLE_TIME, f"{invisible_ms} ms; 0 to 12 hours are allowed")
        return ()
    found = _receipt(desk, call, request.receipt_handle)
    if found is None:
        _refuse_change(desk, call, pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        return ()
    return (Extend(desk.ticket(call), group, topic, [found], invisible_ms),)


def finish_change(desk: Desk, call: Call, event: Event, now: int) -> None:
    """Extended -> the new handle."""
    if isinstance(event, Refused):
        _refuse_change(desk, call, *status.of(event.failure))
        return
    outcome = cast(Extended, event).outcomes[0]
    if isinstance(outcome, Receipt):
        desk.reply(call, status.STATUS_OK + wire.text(b"\x12", outcome.text().encode()))
    else:
        _refuse_change(desk, call, *status.of(outcome))


def _refuse_change(desk: Desk, call: Call, code: int, text: str) -> None:
    """The caller's handle goes back with the refusal: there are SDKs that take what they find for the new one, unchecked."""
    desk.reply(call, status.status(code, text) + wire.text(b"\x12", cast(str, call.state).encode()))


def begin_forward(desk: Desk, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One DeadLetter."""
    request = pb.ForwardMessageToDeadLetterQueueRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if not _checked(desk, call, topic, group):
        return ()
    found = _receipt(desk, call, request.receipt_handle)
    if found is None:
        desk.refuse(call, pb.INVALID_RECEIPT_HANDLE, _UNREADABLE)
        return ()
    return (DeadLetter(desk.ticket(call), group, topic, found),)


def finish_forward(desk: Desk, call: Call, event: Event, now: int) -> None:
    """Done -> OK."""
    if isinstance(event, Refused):
        desk.refuse(call, *status.of(event.failure))
    else:
        desk.reply(call, status.STATUS_OK)


ACK_MESSAGE = Verb("AckMessage", begin_ack, finish_ack)
CHANGE_INVISIBLE_DURATION = Verb("ChangeInvisibleDuration", begin_change, finish_change)
FORWARD_MESSAGE = Verb("ForwardMessageToDeadLetterQueue", begin_forward, finish_forward)
