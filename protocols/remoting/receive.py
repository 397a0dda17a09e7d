"""POP: codes 200050, 200051, 200053, 200054 and 200151 to commands, and their events to replies.

RocketMQ's PopMessageRequestHeader, AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader, BatchAckMessageRequestBody.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Final

from domain import receipt as receipts
from domain.command import Acknowledge, Command, Extend, Receive
from domain.errors import Failure
from domain.event import Event, Extended, Leased, Received, Refused, Settled
from domain.filter.expression import TAG
from domain.filter.filter import Filter
from domain.inspect import AwaitMessages, MessagesWait
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.lite import SuspendLite
from domain.receipt import RETRY_NONE, Receipt
from protocols.remoting import bean, codes, lite, pop
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.pull import compiled, without_origin
from protocols.remoting.status import response_code
from protocols.remoting.ticket import Arguments, Join, Outcome, RequestError, Ticket

ACKS_MAX: Final = 4_096
"""Receipts of one BATCH_ACK_MESSAGE."""


def read(client: Client, frame: Frame) -> Outcome:
    """200050 -> Receive."""
    args = Arguments(frame)
    limit = args.number("maxMsgNums")
    if not 0 < limit <= RECEIVE_MESSAGES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"maxMsgNums is {limit}, 1 to {RECEIVE_MESSAGES_MAX} are allowed")
    group = args.text("consumerGroup")
    topic = args.text("topic")
    ordered = args.flag("order")
    command = Receive(
        Ticket(frame, _received, (group, topic, ordered)),
        group,
        topic,
        limit,
        args.number("invisibleTime"),
        max(0, min(args.number("pollTime"), WAIT_MS_MAX)),
        max(-1, args.number("queueId")),
        _filter(client, args, group, topic),
        args.number("initMode", 0) == 0,
        ordered,
        args.text("attemptId", ""),
        client.member(group),
    )
    return (command,)


def _filter(client: Client, args: Arguments, group: str, topic: str) -> Filter | None:
    if args.has("exp"):
        return compiled(client, args.text("exp"), args.text("expType", TAG))
    known = client.subscription(group, topic)
    return compiled(client, known.expression, known.expression_type) if known is not None else None


def _received(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Received)
    assert isinstance(ticket.about, tuple)
    _, topic, ordered = ticket.about
    messages = event.messages
    if not messages:
        # Clients read the header of this answer too, and log an error for each number that it lacks.
        nothing = {"popTime": str(event.pop_ms), "invisibleTime": str(event.invisible_ms), "reviveQid": "0", "restNum": "0"}
        return ticket.reply(codes.POLLING_TIMEOUT, nothing, remark="no message before the time was up")
    start, listed = pop.offsets(messages)
    first = messages[0].receipt
    fields = {
        "popTime": str(event.pop_ms),
        "invisibleTime": str(event.invisible_ms),
        "reviveQid": str(first.revive_queue),
        "restNum": str(event.rest),
        "startOffsetInfo": start,
        "msgOffsetInfo": listed,
    }
    if ordered:
        fields["orderCountInfo"] = pop.order_counts(messages)
    body = b"".join([_record(message, event, first.revive_queue, topic) for message in messages])
    return ticket.reply(codes.SUCCESS, fields, body, "FOUND")


def back(ticket: Ticket, event: Received) -> Sequence[Command]:
    """What was leased for a reply, of this module or of `lite`, that is not given: others may have the messages now."""
    assert isinstance(ticket.about, tuple)
    group, topic, _ = ticket.about
    given: dict[str, list[Receipt]] = {}
    for leased in event.messages:
        queue = lite.origin(topic, leased) if ticket.code == codes.POP_LITE else topic
        given.setdefault(queue, []).append(leased.receipt)
    # Its client has been answered: what becomes of this is told to nobody.
    ticket.oneway = True
    return [Extend(ticket, group, queue, receipts, 0, untold=True) for queue, receipts in given.items()]


def _record(message: Leased, event: Received, revive_queue: int, topic: str) -> bytes:
    record = without_origin(message.record)
    receipt = message.receipt
    if (
        receipt.retry == RETRY_NONE
        and receipt.pop_ms == event.pop_ms
        and receipt.invisible_ms == event.invisible_ms
        and receipt.revive_queue == revive_queue
    ):
        return record
    return pop.with_receipt(record, receipt, topic)


def acknowledge(_client: Client, frame: Frame) -> Outcome:
    """200051 -> Acknowledge."""
    args = Arguments(frame)
    group = args.text("consumerGroup")
    receipt = _receipt(args)
    topic = lite.queue_of(args, pop.origin_topic(args.text("topic"), group, receipt.retry))
    return (Acknowledge(Ticket(frame, _settled), group, topic, [receipt]),)


def _receipt(args: Arguments) -> Receipt:
    extra = args.text("extraInfo")
    offset = args.number("offset")
    found = receipts.parse(extra) or receipts.parse(f"{extra} {offset}")
    if found is None or offset < 0:
        raise RequestError(codes.MESSAGE_ILLEGAL, f"extraInfo is no receipt: {extra[:200]}")
    found.queue_offset = offset
    return found


def _settled(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Settled)
    return _outcome(ticket, [event])


def _outcome(ticket: Ticket, events: Sequence[Event]) -> bytes:
    """Success, or the first failure there is."""
    for event in events:
        failures: Sequence[Failure | None] = (event.failure,) if isinstance(event, Refused) else ()
        if isinstance(event, Settled):
            failures = event.outcomes
        for failure in failures:
            if failure is not None:
                return ticket.reply(response_code(failure, ticket.code), remark=failure.text)
    return ticket.reply(codes.SUCCESS)


def acknowledge_batch(client: Client, frame: Frame) -> Outcome:
    """200151 -> one Acknowledge a (group, topic, retry flag) of the body."""
    found = bean.read(frame.body)
    broker = bean.text(found, "brokerName", client.facts.broker)
    wanted: dict[tuple[str, str], list[Receipt]] = {}
    room = ACKS_MAX
    for each in bean.beans(found, "acks"):
        group = _either(each, "c", "consumerGroup")
        retry = bean.number(each, "r", bean.number(each, "retry"))
        topic = pop.origin_topic(_either(each, "t", "topic"), group, retry)
        if not group or not topic or retry not in (0, 1, 2):
            raise RequestError(codes.INVALID_PARAMETER, "an ack without group or topic")
        made = _expanded(each, retry, broker, room)
        room -= len(made)
        wanted.setdefault((group, topic), []).extend(made)
    pairs = [(key, made) for key, made in wanted.items() if made]
    ticket = Ticket(frame, _settled)
    if not pairs:
        return ticket.reply(codes.NO_MESSAGE, remark="there is nothing to acknowledge")
    join = Join(ticket, len(pairs), lambda _, joined, events: _outcome(joined, events))
    return [Acknowledge(join.part(at), key[0], key[1], made) for at, (key, made) in enumerate(pairs)]


def _expanded(each: bean.Bean, retry: int, broker: str, room: int) -> list[Receipt]:
    """One BatchAck -> its receipts: bit i of the little-endian set stands for offset start + i."""
    try:
        bits = binascii.a2b_base64(_either(each, "b", "bitSet"))
    except (binascii.Error, ValueError) as error:
        raise RequestError(codes.INVALID_PARAMETER, "the bit set of an ack is not Base64") from error
    start = bean.number(each, "so", bean.number(each, "startOffset"))
    pop_ms = bean.number(each, "pt", bean.number(each, "popTime"))
    invisible_ms = bean.number(each, "it", bean.number(each, "invisibleTime"))
    queue_id = bean.number(each, "q", bean.number(each, "queueId"))
    revive = bean.number(each, "rq", bean.number(each, "reviveQueueId"))
    value = int.from_bytes(bits, "little")
    if value.bit_count() > room:
        raise RequestError(codes.INVALID_PARAMETER, f"at most {ACKS_MAX} messages can be acknowledged at once")
    if start < 0 or queue_id < 0:
        raise RequestError(codes.INVALID_PARAMETER, "an ack with a negative offset or queue")
    return [
        Receipt(start, pop_ms, invisible_ms, revive, retry, broker, queue_id, start + at * 8 + bit)
        for at, byte in enumerate(bits)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]


def _either(each: bean.Bean, short: str, long: str) -> str:
    return bean.text(each, short) or bean.text(each, long)


def extend(_client: Client, frame: Frame) -> Outcome:
    """200053 -> Extend."""
    args = Arguments(frame)
    group = args.text("consumerGroup")
    receipt = _receipt(args)
    topic = pop.origin_topic(args.text("topic"), group, receipt.retry)
    invisible_ms = max(0, args.number("invisibleTime"))
    ticket = Ticket(frame, _extended)
    name = args.text("liteTopic", "")
    if name and args.flag("suspend"):
        return (SuspendLite(ticket, group, topic, name, receipt, invisible_ms),)
    return (Extend(ticket, group, lite.queue_of(args, topic), [receipt], invisible_ms),)


def _extended(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Extended)
    outcome = event.outcomes[0]
    if isinstance(outcome, Failure):
        return ticket.reply(response_code(outcome, ticket.code), remark=outcome.text)
    fields = {
        "popTime": str(outcome.pop_ms),
        "invisibleTime": str(outcome.invisible_ms),
        "reviveQid": str(outcome.revive_queue),
    }
    return ticket.reply(codes.SUCCESS, fields)


def notify(_client: Client, frame: Frame) -> Outcome:
    """200054 -> AwaitMessages."""
    args = Arguments(frame)
    command = AwaitMessages(
        Ticket(frame, _notified),
        args.text("consumerGroup"),
        args.text("topic"),
        max(-1, args.number("queueId", -1)),
        max(0, min(args.number("pollTime", 0), WAIT_MS_MAX)),
        args.flag("order"),
        args.text("attemptId", ""),
    )
    return (command,)


def _notified(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, MessagesWait)
    fields = {"hasMsg": "true" if event.there else "false", "pollingFull": "true" if event.full else "false"}
    return ticket.reply(codes.SUCCESS, fields)
