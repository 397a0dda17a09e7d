"""Acknowledgement and extension of POP leases: codes 200051, 200053 and 200151. Send-back of a pulled message: code 36.

RocketMQ's AckMessageRequestHeader, ChangeInvisibleTimeRequestHeader, BatchAckMessageRequestBody,
ConsumerSendMsgBackRequestHeader.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Final

from domain.command import Acknowledge, Extend, SendBack
from domain.errors import Failure
from domain.event import Event, Extended, Refused, Settled
from domain.message import receipt as receipts
from domain.message.receipt import Receipt
from domain.topic.lite import SuspendLite
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients import lite, pop
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, RequestError, Ticket, success
from protocols.remoting.wire import bean
from protocols.remoting.wire.frame import Frame

ACKS_MAX: Final = 4_096
"""Messages that one BATCH_ACK_MESSAGE can acknowledge."""


def acknowledge(_client: Client, frame: Frame) -> Outcome:
    """Request code 200051 -> Acknowledge."""
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


def _settled(_client: Client, ticket: Ticket, event: Settled) -> bytes:
    return _outcome(ticket, [event])


def _outcome(ticket: Ticket, events: Sequence[Event]) -> bytes:
    """The reply: the first failure among the events, or SUCCESS."""
    for event in events:
        failures: Sequence[Failure | None] = (event.failure,) if isinstance(event, Refused) else ()
        if isinstance(event, Settled):
            failures = event.outcomes
        for failure in failures:
            if failure is not None:
                return ticket.refused(failure)
    return ticket.reply(codes.SUCCESS)


def acknowledge_batch(client: Client, frame: Frame) -> Outcome:
    """Request code 200151 -> an Acknowledge for each (group, topic) of the body."""
    found = bean.read(frame.body)
    broker = bean.text(found, "brokerName", client.node.broker)
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
    multi = MultiTicket(ticket, len(pairs), lambda _, joined, events: _outcome(joined, events))
    return [Acknowledge(multi.part(at), key[0], key[1], made) for at, (key, made) in enumerate(pairs)]


def _expanded(each: bean.Bean, retry: int, broker: str, room: int) -> list[Receipt]:
    """A BatchAck -> its receipts: bit i of the little-endian bit set is offset `startOffset` + i. At most `room` receipts."""
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
    """Request code 200053 -> Extend; SuspendLite when field `suspend` is true for a lite topic."""
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


def _extended(_client: Client, ticket: Ticket, event: Extended) -> bytes:
    outcome = event.outcomes[0]
    if isinstance(outcome, Failure):
        return ticket.refused(outcome)
    fields = {
        "popTime": str(outcome.pop_ms),
        "invisibleTime": str(outcome.invisible_ms),
        "reviveQid": str(outcome.revive_queue),
    }
    return ticket.reply(codes.SUCCESS, fields)


def send_back(_client: Client, frame: Frame) -> Outcome:
    """Request code 36 -> SendBack."""
    args = Arguments(frame)
    most = args.number("maxReconsumeTimes", -1)
    command = SendBack(
        Ticket(frame, success),
        args.text("group"),
        args.number("offset"),
        args.number("delayLevel"),
        most if most >= 0 else -1,
        args.text("originTopic", ""),
        args.text("originMsgId", ""),
    )
    return (command,)
