"""Common parts of all streams of messages to a client: parts, credit, heartbeats and the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from domain.access.principal import Principal
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event, Refused
from protocols.http.flow import BEAT_NS, PART_BYTES_MAX, Flow
from protocols.http.problem import of_failure, problem
from protocols.http.response import Response
from protocols.http.streams.writer import Writer

CREDIT_MAX: Final = 100_000
"""Messages that a client may ask for in advance."""


class Source(Flow):
    """A stream of messages.

    credit     messages that may still be sent; -1: no bound
    _said      encoded parts that are no messages, before the next message
    _rest      the rest of a part that was larger than one `take`
    _beat_at   monotonic ns of the next heartbeat; 0: not set yet
    status     status of the problem that ended it; 0: none did
    """

    def __init__(self, ticket: object, principal: Principal | None, writer: Writer, credit: int) -> None:
        super().__init__(ticket, principal)
        self._writer = writer
        self.credit = credit
        self._said: list[bytes] = []  # a deque takes 700 bytes of each reader
        self._rest: memoryview = memoryview(b"")
        self._beat_at = 0
        self.status = 0

    # For subclasses

    @abstractmethod
    def _next(self) -> bytes:
        """The next message, encoded; b"" when there is none, or no credit for it."""

    @abstractmethod
    def _more(self) -> None:
        """Everything is taken: ask for more messages, unless that is done already or there is no credit."""

    @property
    @abstractmethod
    def _idle(self) -> bool:
        """True when it has no message, and `_more` would ask for some."""

    @property
    @abstractmethod
    def message_bytes(self) -> int:
        """Bytes of messages that are not taken yet."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop the messages that are not taken yet; those that are leased are released."""

    def _cursor(self) -> str:
        """The position behind the taken messages; "": the stream has none."""
        return ""

    def settle(self, verb: str, receipts: Sequence[str], duration_ms: int) -> bool:
        """Settle leases for the client. False: this stream leases nothing."""
        return False

    # Flow

    @property
    def wants_room(self) -> bool:
        """True for parts, for messages with credit, and when it is time to ask for more."""
        return bool(self._rest or self._said) or (
            not self.over and (self._idle or (self.message_bytes > 0 and self.credit != 0))
        )

    @property
    def held(self) -> int:
        """Bytes of records that wait, and of encoded ones."""
        return self.message_bytes + len(self._rest) + sum(map(len, self._said))

    def take(self) -> bytes:
        """Parts up to PART_BYTES_MAX."""
        parts: list[bytes] = []
        room = PART_BYTES_MAX
        while room > 0:
            rest = self._rest
            if rest:
                parts.append(bytes(rest[:room]))
                self._rest = rest[room:]
                room -= len(parts[-1])
                continue
            part = self._said.pop(0) if self._said else b"" if self.over else self._next()
            if not part:
                if not self.over:
                    self._more()
                break
            if len(part) > room:
                self._rest = memoryview(part)
            else:
                parts.append(part)
                room -= len(part)
        return b"".join(parts)

    def say(self, part: bytes) -> None:
        """Queue bytes that are no message, before the next message."""
        if part:
            self._said.append(part)

    def grant(self, credit: int) -> bool:
        """Allow `credit` more messages. False: that is more than CREDIT_MAX in all."""
        if credit < 1 or self.credit + credit > CREDIT_MAX:
            return False
        self.credit += credit
        return True

    def end(self, response: Response) -> None:
        """Say why the stream ends, and end it; messages that were not taken are dropped."""
        if not self.over:
            self._said.append(self._writer.problem(response.body))
            self.refusal = response.refusal
            self.status = response.status
            self.over = True
            self._drop()

    def answer(self, event: Event, now: int) -> None:
        """Refused ends the stream."""
        if isinstance(event, Refused):
            self.end(of_failure(event.failure))

    def deadline(self) -> int | None:
        """0 while commands wait, else the next heartbeat."""
        return 0 if self._commands else None if self.over else self._beat_at

    def expire(self, now: int) -> Sequence[Command]:
        """Take the commands; send a heartbeat when it is due and the client has read everything."""
        if now >= self._beat_at and not self.over:
            if self._beat_at and not (self._said or self._rest):
                self._said.append(self._writer.beat(self._cursor()))
            self._beat_at = now + BEAT_NS
        return super().expire(now)

    def gone(self, now: int) -> Sequence[Command]:
        """Drop everything."""
        self.over = True
        self._said.clear()
        self._rest = memoryview(b"")
        self._drop()
        return self.expire(now)

    def drain(self) -> None:
        """Say that the node stops."""
        self.end(problem(503, ErrorCode.DRAINING.value, "the node stops: connect again, to another node"))
        self.refusal = ""
        self.status = 0
