"""Request codes of Headgate, which RocketMQ's brokers answer with response code 3: docs/protocols/remoting-extensions.md."""

from __future__ import annotations

import json

from domain.admin.topic import Bounds, QueryBounds
from domain.command import HoldQueues
from domain.event import Event
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.pull import EPOCH_FIELD
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success


def bounds(_client: Client, frame: Frame) -> Outcome:
    """Request code 30000 -> QueryBounds: the epoch of a topic, and the bounds of its queues, at one moment."""
    return (QueryBounds(Ticket(frame, _bounds), Arguments(frame).text("topic")),)


def hold(_client: Client, frame: Frame) -> Outcome:
    """Request code 30001 -> HoldQueues. Raises RequestError."""
    args = Arguments(frame)
    try:
        offsets = {int(queue_id): int(offset) for queue_id, offset in json.loads(frame.body or b"[]")}
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(codes.INVALID_PARAMETER, "the body is a list of [queue id, offset]") from error
    name, topic, hold_ms = args.text("hold"), args.text("topic"), max(0, args.number("holdMs"))
    return (HoldQueues(Ticket(frame, success), name, topic, offsets, hold_ms, args.number(EPOCH_FIELD, -1)),)


def _bounds(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Bounds)
    body = {"epoch": event.epoch, "queues": event.queues}
    return ticket.reply(codes.SUCCESS, body=json.dumps(body, separators=(",", ":")).encode())
