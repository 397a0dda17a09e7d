"""`GET /v1/groups/{group}/topics/{topic}:consume`: messages leased to a member of a group, until they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

import orjson

from domain import limits
from domain.access.principal import Principal
from domain.command import Acknowledge, AwaitSettled, Command, Extend, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Extended, Leased, LeasesEnded, Received, Settled
from domain.message import receipt as receipts
from domain.message.receipt import Receipt
from domain.message.record import Record
from protocols.http.argument import filter_of, flag, group, number, parameters, topic
from protocols.http.handler import Match, Outcome
from protocols.http.handlers.receive import INVISIBLE_MS, INVISIBLE_MS_MIN
from protocols.http.handlers.settle import settlement_results
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import Response
from protocols.http.streams.consume import COMMON, ConsumeHandler
from protocols.http.streams.source import Source
from protocols.http.streams.writer import Writer
from protocols.http.translate_out import document

IN_FLIGHT_MAX: Final = 1_024
"""Messages that one stream may have leased and not settled."""
IN_FLIGHT: Final = 32
SETTLEMENTS_MAX: Final = 64
"""Settlements of one stream that are not answered; with more of them it is not read."""


@final
class LeaseSource(Source):
    """A member of a group: it leases at most `_max` messages that are not settled yet.

    _in_flight   leased and not known to have ended
    _fresh       leased, and not watched yet: the client gets them when their settlement cannot be missed
    _watching    AwaitSettled commands that are not answered
    _settling    settlements that the client asked for, in order: (receipts as sent, those that are valid, True: an extension)
    """

    def __init__(
        self, command: Receive, principal: Principal | None, most: int, writer: Writer, credit: int, text: bool,
        wall_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(command.ticket, principal, writer, credit)
        self._command = command
        self._max = most
        self._text = text
        self._wall_ms = wall_ms
        self._in_flight = self._bytes = self._watching = 0
        self._fresh: list[Leased] = []
        self._messages: list[Leased] = []
        self._receiving = False
        self._settling: list[tuple[Sequence[str], list[bool], bool]] = []

    def answer(self, event: Event, now: int) -> None:
        """Received, LeasesEnded, Settled, Extended, or an event that ends the stream."""
        if isinstance(event, Received):
            self._receiving = False
            self._lease(event.messages)
        elif isinstance(event, LeasesEnded):
            self._watching -= 1
            self._in_flight -= event.ended
        elif isinstance(event, Settled | Extended):
            self._settled(event.outcomes)
        else:
            super().answer(event, now)

    def _lease(self, messages: Sequence[Leased]) -> None:
        if not messages:
            return
        if self.over:
            self._release(messages)
            return
        self._in_flight += len(messages)
        self._fresh.extend(messages)
        self._bytes += sum([len(leased.record) for leased in messages])
        self._watch([leased.receipt for leased in messages])

    def _watch(self, found: list[Receipt]) -> None:
        first = self._command
        self._watching += 1
        self._ask(AwaitSettled(self.ticket, _holder(self.ticket), first.group, first.topic, found, limits.WAIT_MS_MAX))

    def _release(self, messages: Sequence[Leased]) -> None:
        first = self._command
        found = [leased.receipt for leased in messages]
        self._ask(Extend(None, first.group, first.topic, found, 0, untold=True))

    def expire(self, now: int) -> Sequence[Command]:
        """Take the commands; messages whose leases are watched from now on can be taken."""
        commands = super().expire(now)
        if self._fresh:
            self._messages.extend(self._fresh)
            self._fresh.clear()
        return commands

    def _next(self) -> bytes:
        now_ms = self._wall_ms()
        while self._messages and self.credit != 0:
            leased = self._messages.pop(0)
            self._bytes -= len(leased.record)
            receipt = leased.receipt
            if receipt.pop_ms + receipt.invisible_ms <= now_ms:
                continue  # the client was slow: another member has it, or will
            if self.credit > 0:
                self.credit -= 1
            found = {"receipt": receipt.text(), "attempt": leased.attempt}
            found |= document(Record(leased.record), self._text)[0]
            return self._writer.message(orjson.dumps(found), "")
        return b""

    def _more(self) -> None:
        if not self._watching and self._in_flight:
            self._watch([])
        if not self._idle:
            return
        first = self._command
        self._receiving = True
        self._ask(
            Receive(
                self.ticket, first.group, first.topic, self._room(), first.invisible_ms, limits.WAIT_MS_MAX, first.queue_id,
                first.filter, first.from_first, first.ordered,
            )
        )  # fmt: skip

    def _room(self) -> int:
        room = min(limits.RECEIVE_MESSAGES_MAX, self._max - self._in_flight)
        return room if self.credit < 0 else min(room, self.credit)

    @property
    def _idle(self) -> bool:
        if self.over or self._messages or self._fresh:
            return False
        return (not self._receiving and self._room() > 0) or (not self._watching and self._in_flight > 0)

    @property
    def message_bytes(self) -> int:
        """Bytes of messages that are not taken yet."""
        return self._bytes if self._messages else 0

    def _drop(self) -> None:
        left = [*self._messages, *self._fresh]
        if left:
            self._release(left)
        self._messages.clear()
        self._fresh.clear()
        self._bytes = 0

    # Settlements on the stream itself

    @property
    def reading(self) -> bool:
        """False while SETTLEMENTS_MAX settlements are not answered."""
        return len(self._settling) < SETTLEMENTS_MAX

    def settle(self, verb: str, found: Sequence[str], duration_ms: int) -> bool:
        """Settle leases: `ack`, `nack` or `extend`. The results are sent in the order of the calls."""
        parsed = [receipts.parse(text) for text in found]
        good = [one for one in parsed if one is not None]
        self._settling.append((found, [one is not None for one in parsed], verb == "extend"))
        first = self._command
        if not good:
            self._settled([])
        elif verb == "ack":
            self._ask(Acknowledge(self.ticket, first.group, first.topic, good))
        else:
            self._ask(Extend(self.ticket, first.group, first.topic, good, duration_ms))
        return True

    def _settled(self, outcomes: Sequence[Receipt | Failure | None]) -> None:
        if not self._settling:
            return
        texts, valid, extends = self._settling.pop(0)
        self.say(self._writer.results(settlement_results(texts, valid, outcomes, extends)))


def _holder(ticket: object) -> str:
    """The name of a stream's leases on its connection: the stream of HTTP/2, of which a connection has many."""
    return str(ticket[1]) if isinstance(ticket, tuple) else ""


@final
class ConsumeGroup(ConsumeHandler):
    """`GET /v1/groups/{group}/topics/{topic}:consume`."""

    description: ClassVar[str] = (
        "A stream of leased messages. One that is not acknowledged when its lease ends is redelivered, to any member of the "
        "group. Parameters: `max` (1 to 1024, 32: messages in flight), `invisible_ms`, `tag` or `filter`, `queue`, `from` "
        "(`first` or `last`; first), `ordered`, as of `:receive`; `format`, `text`, `credit`."
    )
    __slots__ = ("_command", "_max")

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._command: Receive | None = None
        self._max = IN_FLIGHT

    def start(self, request: Request, ticket: object) -> Outcome:
        """The first Receive, which does not wait; without credit a command that needs the same rights."""
        match = self._match
        asked = parameters(match, "max", "invisible_ms", "tag", "filter", "queue", "from", "ordered", *COMMON)
        self._form(request, asked)
        begin = asked.get("from", "first")
        if begin not in ("first", "last"):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "from is first or last", parameter="from")
        self._max = number("max", asked.get("max"), 1, IN_FLIGHT_MAX, IN_FLIGHT)
        room = min(self._max, limits.RECEIVE_MESSAGES_MAX)
        command = Receive(
            ticket,
            group(match),
            topic(match),
            room if self._frames is None else min(room, self._credit),
            number("invisible_ms", asked.get("invisible_ms"), INVISIBLE_MS_MIN, limits.INVISIBLE_MS_MAX, INVISIBLE_MS),
            0,
            number("queue", asked.get("queue"), 0, limits.QUEUES_PER_TOPIC_MAX - 1, -1),
            filter_of(match, asked),
            from_first=begin == "first",
            ordered=flag("ordered", asked.get("ordered")),
        )
        self._command = command
        if command.limit == 0:
            return AwaitSettled(ticket, _holder(ticket), command.group, command.topic, []), None
        return command, None

    def finish(self, event: Event) -> Response:
        """Received, LeasesEnded or Refused."""
        command = self._command
        if not isinstance(event, Received | LeasesEnded) or command is None:
            return super().finish(event)
        wall_ms = self._match.context.wall_ms
        source = LeaseSource(command, self.principal, self._max, self._writer, self._first_credit, self._text, wall_ms)
        if isinstance(event, Received):
            source.answer(event, 0)
        return self._response(source, "")

    def undo(self, event: Event, ticket: object) -> Command | None:
        """Release the leases of the first Receive for a client that has hung up."""
        if not isinstance(event, Received) or not event.messages or self._command is None:
            return None
        found = [leased.receipt for leased in event.messages]
        return Extend(ticket, self._command.group, self._command.topic, found, 0, untold=True)
