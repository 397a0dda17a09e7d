"""Request code -> reader, on the port of a replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.event import Event
from domain.replication.message import FollowAccepted, FollowRefused, LogPart, LogPartRefused
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.nodes.replication import form
from protocols.remoting.ticket import Outcome, Reader, Ticket
from protocols.remoting.wire.frame import Frame


def follow(_client: Client, frame: Frame) -> Outcome:
    """Request code 30025 -> Follow. Raises RequestError."""
    if frame.oneway:
        raise form.malformed("who wants to follow waits for the answer")
    return (form.follow_of(Ticket(frame, _followed), frame),)


def _followed(_client: Client, ticket: Ticket, event: Event) -> bytes:
    if isinstance(event, FollowRefused):
        return ticket.reply(codes.NOT_FOLLOWED, form.refused_fields(event), remark=event.reason.value)
    assert isinstance(event, FollowAccepted)
    return ticket.reply(codes.SUCCESS, form.accepted_fields(event))


def held(_client: Client, frame: Frame) -> Outcome:
    """Request code 30027, oneway -> LogHeld. Raises RequestError."""
    if not frame.oneway:
        raise form.malformed("what a log has is said oneway")
    return (form.held_of(frame),)


def read(_client: Client, frame: Frame) -> Outcome:
    """Request code 30030 -> ReadLog. Raises RequestError."""
    if frame.oneway:
        raise form.malformed("who wants a part of the log waits for it")
    return (form.read_of(Ticket(frame, _given), frame),)


def _given(_client: Client, ticket: Ticket, event: Event) -> bytes:
    if isinstance(event, LogPartRefused):
        return ticket.reply(codes.PART_REFUSED, {"refusal": event.reason.name}, remark=event.reason.value)
    assert isinstance(event, LogPart)
    return ticket.reply(codes.SUCCESS, {}, event.data)


READERS: Final[Mapping[int, Reader]] = {codes.FOLLOW: follow, codes.LOG_HELD: held, codes.READ_LOG: read}
