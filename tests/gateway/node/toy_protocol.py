"""A protocol of one file: lines that begin with `toy:`. It imports what any protocol may import, and nothing of the tests.

toy:hello              the greeting of its settings
toy:send TOPIC TEXT    `stored`, or `refused` and why
toy:HELLO              `not so loud`, counted as a refusal
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, final

from msgspec import Meta

from domain.command import Command, Disconnected, Send
from domain.errors import ErrorCode
from domain.event import Event, Refused, Sent
from domain.limits import HANDSHAKE_NS
from domain.message.message import Message
from protocols.adapter import Peer
from protocols.declaration import Declaration, Listener
from protocols.setting import Setting

PREFIX: Final = b"toy:"


@dataclass(frozen=True, slots=True)
class ToyConfig:
    """Settings of the toy.

    greeting         what a client that says hello is told
    line_bytes_max   a longer line ends the connection
    """

    greeting: str = "hello"
    line_bytes_max: Annotated[int, Meta(ge=16, le=1_024)] = 64


def begins(head: bytes) -> bool | None:
    """`toy:`."""
    if not PREFIX.startswith(head[: len(PREFIX)]):
        return False
    return True if len(head) >= len(PREFIX) else None


@final
class ToyConnection:
    """One client."""

    def __init__(self, setting: Setting, config: ToyConfig, now: int) -> None:
        self._setting = setting
        self._config = config
        self._line = b""
        self._out: list[bytes] = []
        self._deadline: int | None = now + HANDSHAKE_NS
        self.reading = True
        self.closed = False

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Bytes of lines, split anywhere."""
        if not data:
            return self._end("eof")
        self._deadline = None
        *lines, self._line = (self._line + data).split(b"\n")
        commands = [command for line in lines for command in self._obey(line)]
        return [*commands, *self._end("toy-line-too-long")] if len(self._line) > self._config.line_bytes_max else commands

    def _obey(self, line: bytes) -> Sequence[Command]:
        verb, *words = line.removeprefix(PREFIX).decode().split(" ", 2)
        if verb == "send":
            return (Send(self, [Message(words[0], words[1].encode())]),)
        if verb.isupper():
            self._setting.refused("toy", "toy-shouting")
        self._out.append(b"not so loud\n" if verb.isupper() else self._config.greeting.encode() + b"\n")
        return ()

    def answer(self, event: Event, now: int) -> None:
        """What became of a message."""
        if isinstance(event, Sent):
            self._out.append(b"stored\n")
        elif isinstance(event, Refused):
            self._out.append(b"refused " + event.failure.text.encode() + b"\n")

    def outgoing(self) -> Sequence[bytes]:
        """Answers."""
        out, self._out = self._out, []
        return out

    def deadline(self) -> int | None:
        """Of the first line."""
        return self._deadline

    def expire(self, now: int) -> Sequence[Command]:
        """The first line has not come."""
        return self._end("handshake-timeout")

    def _end(self, word: str) -> Sequence[Command]:
        self.closed = True
        return (Disconnected(word),)


@final
class ToyAdapter:
    """`protocols.adapter.Adapter`."""

    name = "toy"

    def __init__(self, setting: Setting, config: ToyConfig) -> None:
        self._setting = setting
        self._config = config

    def connect(self, peer: Peer, now: int) -> ToyConnection:
        """A new client."""
        return ToyConnection(self._setting, self._config, now)


PROTOCOL: Final = Declaration(
    "toy",
    settings=ToyConfig,
    stream=ToyAdapter,
    listeners=(Listener("toy", 7_777, "Lines for the test of plugging in", ("toy",)),),
    rank=10,
    begins=begins,
    alpn=("toy",),
    words={"toy-line-too-long": ErrorCode.MESSAGE_TOO_LARGE, "toy-shouting": ErrorCode.NOT_ALLOWED},
)
