"""What the adapter has to remember of a request until its answer comes, and how requests are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame, encode
from protocols.remoting.header import FLAG_RESPONSE, Header

Render = Callable[[Client, "Ticket", Event], bytes]
RenderAll = Callable[[Client, "Ticket", Sequence[Event]], bytes]
Outcome = Sequence[Command] | bytes
"""What a request becomes: commands, or its reply at once."""


class RequestError(Exception):
    """A request that cannot become a command: the reply's code and remark. Raised by readers, caught by the connection.

    `reason` is what it is counted as, None: what `status.REFUSALS` says of the code.
    """

    def __init__(self, code: int, remark: str, reason: ErrorCode | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.reason = reason


@final
class Ticket:
    """One request that waits: how to address its reply, how to write it (`render`), and what that needs (`request_data`)."""

    __slots__ = ("code", "oneway", "opaque", "render", "request_data", "serialize")

    def __init__(self, request: Header, render: Render, request_data: object = None) -> None:
        self.code = request.code
        self.opaque = request.opaque
        self.serialize = request.serialize
        self.oneway = request.flag & 2 != 0
        self.render = render
        self.request_data = request_data

    def reply(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = "") -> bytes:
        """A reply frame in the request's own encoding; its ext fields are never null."""
        return encode(
            code,
            self.opaque,
            fields=fields or {},
            body=body,
            flag=FLAG_RESPONSE,
            remark=remark,
            serialize=self.serialize,
        )


@final
class MultiTicket:
    """One request that needs several commands: its reply is written when all of their events are there."""

    __slots__ = ("events", "missing", "render", "ticket")

    def __init__(self, ticket: Ticket, size: int, render: RenderAll) -> None:
        self.ticket = ticket
        self.render = render
        self.missing = size
        self.events: list[Event] = [Event()] * size

    def part(self, at: int) -> PartTicket:
        """The ticket of command `at`."""
        return PartTicket(self, at)

    def put(self, at: int, event: Event) -> bool:
        """Keep an event; True when it was the last one missing."""
        self.events[at] = event
        self.missing -= 1
        return self.missing == 0


@final
class PartTicket:
    """The ticket of one command of a join."""

    __slots__ = ("at", "multi")

    def __init__(self, multi: MultiTicket, at: int) -> None:
        self.multi = multi
        self.at = at


@final
class Arguments:
    """The ext fields of a request, by type. Every method raises RequestError for a value that is missing or not of its type."""

    __slots__ = ("_fields",)

    def __init__(self, frame: Frame) -> None:
        fields = frame.fields()
        if fields is None:
            raise RequestError(codes.INVALID_PARAMETER, "the ext fields of the header are malformed")
        self._fields = fields

    def has(self, name: str) -> bool:
        """True when the field is there and not empty."""
        return bool(self._fields.get(name))

    def text(self, name: str, absent: str | None = None) -> str:
        """A string; `absent` when it is missing."""
        value = self._fields.get(name)
        if value:
            return value
        if absent is None:
            raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is null")
        return absent

    def number(self, name: str, absent: int | None = None) -> int:
        """A signed integer of 64 bits."""
        value = self._fields.get(name)
        if not value:
            if absent is None:
                raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is null")
            return absent
        return int64(name, value)

    def flag(self, name: str, absent: bool = False) -> bool:
        """true or false, in any case."""
        value = self._fields.get(name)
        return value.lower() == "true" if value else absent


def int64(name: str, value: str) -> int:
    """Decimal text -> a signed integer of 64 bits. Raises RequestError."""
    digits = value[1:] if value[:1] == "-" else value
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is no number: {value[:40]}")
    found = int(value)
    if not -0x8000000000000000 <= found <= 0x7FFFFFFFFFFFFFFF:
        raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is out of range: {value[:40]}")
    return found


def success(_client: Client, ticket: Ticket, _event: Event) -> bytes:
    """Success with nothing to say."""
    return ticket.reply(codes.SUCCESS)
