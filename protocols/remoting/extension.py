"""Request codes of Headgate, which RocketMQ's brokers answer with response code 3: docs/protocols/remoting-extensions.md."""

from __future__ import annotations

import json

from domain.admin.topic import Bounds, QueryBounds
from domain.event import Event
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.ticket import Arguments, Outcome, Ticket


def bounds(_client: Client, frame: Frame) -> Outcome:
    """Request code 30000 -> QueryBounds: the epoch of a topic, and the bounds of its queues, at one moment."""
    return (QueryBounds(Ticket(frame, _bounds), Arguments(frame).text("topic")),)


def _bounds(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Bounds)
    body = {"epoch": event.epoch, "queues": event.queues}
    return ticket.reply(codes.SUCCESS, body=json.dumps(body, separators=(",", ":")).encode())
