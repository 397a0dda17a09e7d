"""POP: request codes 200050 and 200054 -> commands, their events -> replies (RocketMQ's PopMessageRequestHeader)."""

from __future__ import annotations

from collections.abc import Sequence

from domain.command import AwaitMessages, Command, Extend, Receive
from domain.event import Leased, MessagesWaiting, Received
from domain.filter.filter import TAG, Filter
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.message.receipt import RETRY_NONE, Receipt
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients import lite, pop
from protocols.remoting.clients.pull import compiled, without_origin
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire.frame import Frame


def read(client: Client, frame: Frame) -> Outcome:
    """Request code 200050 -> Receive."""
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
        client.clustering_client_id(group),
    )
    return (command,)


def _filter(client: Client, args: Arguments, group: str, topic: str) -> Filter | None:
    if args.has("exp"):
        return compiled(client, args.text("exp"), args.text("expType", TAG))
    known = client.subscription(group, topic)
    return compiled(client, known.expression, known.expression_type) if known is not None else None


def _received(_client: Client, ticket: Ticket, event: Received) -> bytes:
    _, topic, ordered = ticket.request_data
    messages = event.messages
    if not messages:
        # Clients read these fields of an empty reply too, and log an error for each missing one.
        nothing = {"popTime": str(event.pop_ms), "invisibleTime": str(event.invisible_ms), "reviveQid": "0", "restNum": "0"}
        return ticket.reply(codes.POLLING_TIMEOUT, nothing, remark="no message before the time was up")
    start, listed = pop.offsets(messages)
    first = messages[0].receipt
    fields = {
        "popTime": str(event.pop_ms),
        "invisibleTime": str(event.invisible_ms),
        "reviveQid": str(first.revive_queue),
        "restNum": str(event.remaining),
        "startOffsetInfo": start,
        "msgOffsetInfo": listed,
    }
    if ordered:
        fields["orderCountInfo"] = pop.order_counts(messages)
    body = b"".join([_record(message, event, first.revive_queue, topic) for message in messages])
    return ticket.reply(codes.SUCCESS, fields, body, "FOUND")


def return_leases(ticket: Ticket, event: Received) -> Sequence[Command]:
    """Commands that end the leases of a reply which is not sent, so that other clients get the messages.

    `ticket` is that of a POP request of this module or of `lite`.
    """
    group, topic, _ = ticket.request_data
    returned: dict[str, list[Receipt]] = {}
    for leased in event.messages:
        queue = lite.leased_queue(topic, leased) if ticket.code == codes.POP_LITE else topic
        returned.setdefault(queue, []).append(leased.receipt)
    # The client has its reply (FLOW_CONTROL): the answers to these commands are discarded.
    ticket.oneway = True
    return [Extend(ticket, group, queue, receipts, 0, untold=True) for queue, receipts in returned.items()]


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


def notify(_client: Client, frame: Frame) -> Outcome:
    """Request code 200054 -> AwaitMessages."""
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


def _notified(_client: Client, ticket: Ticket, event: MessagesWaiting) -> bytes:
    fields = {"hasMsg": "true" if event.there else "false", "pollingFull": "true" if event.full else "false"}
    return ticket.reply(codes.SUCCESS, fields)
