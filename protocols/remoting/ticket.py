"""Tickets of requests that are not answered yet, and the ext fields of a request by type."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, final

from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.status import response_code
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import FLAG_RESPONSE, Header

Rendering = Generator[None, None, bytes]
"""Writes a reply over several turns of the loop; yields where a turn may end, and returns the reply."""
Render = Callable[[Client, "Ticket", Any], bytes | Rendering]
"""Writes the reply to a request from the event of its command."""
RenderAll = Callable[[Client, "Ticket", Sequence[Any]], bytes]
Outcome = Sequence[Command] | bytes
"""Result of reading a request: commands, or an encoded reply when no command is needed."""
Steps = Generator[None, None, Outcome]
"""Reads a request over several turns of the loop; yields where a turn ends. Raises RequestError."""
Reader = Callable[[Client, Frame], Outcome | Steps]


class RequestError(Exception):
    """A request that cannot become a command. Readers raise it; the connection catches it and replies.

    reason  error code that the refusal is counted under; None: the one that `status.REFUSALS` has for `code`
    """

    def __init__(self, code: int, remark: str, reason: ErrorCode | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.reason = reason


@final
class Ticket:
    """One request that is not answered yet.

    opaque        opaque of the request; the reply has the same
    serialize     header encoding of the request; the reply has the same
    oneway        True: the client expects no reply
    request_data  values of the request that `render` needs; None: it needs none
    """

    __slots__ = ("code", "oneway", "opaque", "render", "request_data", "serialize")

    def __init__(self, request: Header, render: Render, request_data: Any = None) -> None:
        self.code = request.code
        self.opaque = request.opaque
        self.serialize = request.serialize
        self.oneway = request.flag & 2 != 0
        self.render = render
        self.request_data = request_data

    def reply(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = "") -> bytes:
        """A reply frame in the header encoding of the request. Its ext fields are never null: clients require them."""
        return encode(
            code,
            self.opaque,
            fields=fields or {},
            body=body,
            flag=FLAG_RESPONSE,
            remark=remark,
            serialize=self.serialize,
        )

    def refused(self, failure: Failure) -> bytes:
        """The reply to a refused request."""
        return self.reply(response_code(failure, self.code), remark=failure.text)


@final
class MultiTicket:
    """The ticket of one request that becomes several commands. The reply is written when all commands are answered.

    missing  commands that are not answered yet
    events   events in the order of the commands
    """

    __slots__ = ("events", "missing", "render", "ticket")

    def __init__(self, ticket: Ticket, size: int, render: RenderAll) -> None:
        self.ticket = ticket
        self.render = render
        self.missing = size
        self.events: list[Event] = [Done(None)] * size

    def part(self, at: int) -> PartTicket:
        """The ticket of the command at index `at`."""
        return PartTicket(self, at)

    def put(self, at: int, event: Event) -> bool:
        """Store the event of the command at index `at`. True when all commands are answered."""
        self.events[at] = event
        self.missing -= 1
        return self.missing == 0


@final
class PartTicket:
    """The ticket of one command of a MultiTicket."""

    __slots__ = ("at", "multi")

    def __init__(self, multi: MultiTicket, at: int) -> None:
        self.multi = multi
        self.at = at


@final
class Arguments:
    """The ext fields of a request, by type. A field that is missing or not of its type raises RequestError with code 29."""

    __slots__ = ("_fields",)

    def __init__(self, frame: Frame) -> None:
        fields = frame.fields()
        if fields is None:
            raise RequestError(codes.INVALID_PARAMETER, "the ext fields of the header are malformed")
        self._fields = fields

    def has(self, name: str) -> bool:
        """True when the field is present and not empty."""
        return bool(self._fields.get(name))

    def text(self, name: str, absent: str | None = None) -> str:
        """A string; `absent` when the field is missing or empty."""
        value = self._fields.get(name)
        if value:
            return value
        if absent is None:
            raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is null")
        return absent

    def number(self, name: str, absent: int | None = None) -> int:
        """A signed integer of 64 bits; `absent` when the field is missing or empty."""
        value = self._fields.get(name)
        if not value:
            if absent is None:
                raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is null")
            return absent
        return int64(name, value)

    def flag(self, name: str, absent: bool = False) -> bool:
        """True when the field is `true` in any letter case; `absent` when the field is missing or empty."""
        value = self._fields.get(name)
        return value.lower() == "true" if value else absent


def int64(name: str, value: str) -> int:
    """The decimal number in field `name` -> a signed integer of 64 bits. Raises RequestError."""
    if len(value) < 19 and value.isascii() and value.isdigit():
        return int(value)
    digits = value[1:] if value[:1] == "-" else value
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is no number: {value[:40]}")
    found = int(value)
    if not -0x8000000000000000 <= found <= 0x7FFFFFFFFFFFFFFF:
        raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is out of range: {value[:40]}")
    return found


def success(_client: Client, ticket: Ticket, _event: Event) -> bytes:
    """The reply SUCCESS without ext fields or body."""
    return ticket.reply(codes.SUCCESS)


def first_refusal(_client: Client, ticket: Ticket, events: Sequence[Event]) -> bytes:
    """The reply of a MultiTicket: the first refusal among the events, or SUCCESS."""
    for event in events:
        if isinstance(event, Refused):
            return ticket.refused(event.failure)
    return ticket.reply(codes.SUCCESS)


Field = Callable[[Arguments], object]
"""Reads one ext field of a request. Raises RequestError."""


def text(name: str, absent: str | None = None) -> Field:
    """A field that is read by `Arguments.text`."""
    return lambda args: args.text(name, absent)


def number(name: str, absent: int | None = None, least: int = -0x8000000000000000) -> Field:
    """A field that is read by `Arguments.number`; a lower one than `least` becomes `least`."""
    return lambda args: max(least, args.number(name, absent))


def flag(name: str) -> Field:
    """A field that is read by `Arguments.flag`."""
    return lambda args: args.flag(name)


def request(command: Callable[..., Command], render: Render, *fields: str | Field) -> Reader:
    """The reader of a request that becomes one command with the values of these ext fields, in this order.

    A name is that of a text, which has to be there. The values are the `request_data` of the ticket.
    """
    readers = [text(each) if isinstance(each, str) else each for each in fields]

    def read(_client: Client, frame: Frame) -> Outcome:
        if not readers:
            return (command(Ticket(frame, render)),)
        args = Arguments(frame)
        values = tuple([each(args) for each in readers])
        return (command(Ticket(frame, render, values), *values),)

    return read
