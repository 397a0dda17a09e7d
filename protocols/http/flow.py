"""A response whose content comes in parts, over time: the interface between a connection and a handler's stream.

A connection calls `take` whenever it has room for output, so a client that does not read is not read ahead for. Events go to
`answer`; commands leave by `expire`, which is due at once (`deadline` 0) while there are any. Nothing is done for a single
message: one command, one answer and one write carry all messages that there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from domain.access.principal import Principal
from domain.command import Command
from domain.event import Event

PART_BYTES_MAX: Final = 64 * 1024
"""Bytes that one `take` returns at most."""
BEAT_NS: Final = 15_000_000_000
"""Silence after which a client is sent a heartbeat."""


class Flow(ABC):
    """One stream.

    over        True: when `take` returns b"", the response is complete
    uploads     True: the request's content belongs to it, and is passed to `feed` as it arrives
    principal   the sender of the request; None: access is not controlled
    refusal     the word under which its end is counted; "": it has ended in order
    """

    uploads: bool = False

    def __init__(self, ticket: object, principal: Principal | None) -> None:
        self.ticket = ticket
        self.principal = principal
        self.over = False
        self.refusal = ""
        self._commands: list[Command] = []

    def _ask(self, command: Command) -> None:
        """Queue a command for the next `expire`."""
        if self.principal is not None:
            command.principal = self.principal
        self._commands.append(command)

    @property
    @abstractmethod
    def wants_room(self) -> bool:
        """True while `take` is to be called as soon as the connection has room."""

    @property
    @abstractmethod
    def held(self) -> int:
        """Bytes that it holds for a client that has not read them."""

    @property
    def reading(self) -> bool:
        """False: pass no more content to `feed`."""
        return True

    @abstractmethod
    def take(self) -> bytes:
        """The next bytes of the response, PART_BYTES_MAX at most; b"" while there are none."""

    @abstractmethod
    def answer(self, event: Event, now: int) -> None:
        """The event of one of its commands."""

    def feed(self, data: bytes, now: int) -> None:  # noqa: B027, most flows are no uploads
        """A part of the request's content. Never raises for bytes of a peer."""

    def fed_all(self, now: int) -> None:  # noqa: B027
        """The request's content is complete."""

    def cut(self, document: bytes) -> None:  # noqa: B027
        """The request's content is invalid, by the problem document: nothing more comes."""

    def deadline(self) -> int | None:
        """Monotonic ns at which `expire` is due; 0: commands wait; None: never."""
        return 0 if self._commands else None

    def expire(self, now: int) -> Sequence[Command]:
        """Take the commands that wait."""
        commands, self._commands = self._commands, []
        return commands

    @abstractmethod
    def gone(self, now: int) -> Sequence[Command]:
        """The client has gone: take the commands that undo undelivered leases. `answer` may still be called."""

    @abstractmethod
    def drain(self) -> None:
        """The node stops: end the response."""
