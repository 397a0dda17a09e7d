"""Received bytes of one connection that wait for their turn, and how many of them are handled at once.

Nobody knows that a connection sends before its first message was read: that message waits here, before the bytes, when the
store takes none of its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.client.mqtt_session import SendOnce
from domain.command import Command, Send
from gateway.connection.intake import SLICE_BYTES_FIRST, SLICE_BYTES_MAX, SLICE_BYTES_MIN, SLICE_NS, PumpIntake

HELD_MESSAGE_BYTES: Final = 1024
"""Bytes for which a message that waits counts besides its body."""


@final
class UnreadBytes:
    """Bytes in the order in which they came, taken in slices that should take SLICE_NS each, behind the first message.

    waits        True while there are any, or the first message waits
    sent         True: the first message was read
    slice_bytes  size of the next slice
    """

    __slots__ = ("_at", "_data", "_first", "_first_bytes", "_host", "_intake", "sent", "slice_bytes", "waits")

    def __init__(self, intake: PumpIntake) -> None:
        self._intake = intake
        self._first: Sequence[Command] = ()
        self._first_bytes: int = 0
        self._host = ""
        self.sent: bool = False
        self._data = b""
        self._at: int = 0
        self.slice_bytes: int = SLICE_BYTES_FIRST
        self.waits: bool = False

    @property
    def holds_message(self) -> bool:
        """True while the first message waits."""
        return len(self._first) > 0

    def add(self, data: bytes) -> None:
        """Append received bytes. Bytes that wait already are copied; few do, since the socket is not read meanwhile."""
        self._data = self._data[self._at :] + data if self.waits else data
        self._at = 0
        self.waits = len(self._data) > 0 or len(self._first) > 0

    def admit(self, commands: Sequence[Command], host: str) -> Sequence[Command]:
        """The commands that are carried out now; from the first message on, they wait while the store takes none of `host`."""
        for at, command in enumerate(commands):
            if isinstance(command, (Send, SendOnce)):
                self.sent = True
                if self._intake.takes_from(host):
                    break
                self._hold(commands[at:], host)
                return commands[:at]
        return commands

    def _hold(self, commands: Sequence[Command], host: str) -> None:
        sends = [command for command in commands if isinstance(command, (Send, SendOnce))]
        self._first_bytes = sum([len(message.body) + HELD_MESSAGE_BYTES for command in sends for message in command.messages])
        self._first = commands
        self._host = host
        self.waits = True
        self._intake.hold(host, self._first_bytes)

    def take_first(self) -> Sequence[Command]:
        """Remove the first message that waits, with the commands behind it; () without one."""
        first = self._first
        if first:
            self._first = ()
            self._intake.give(self._host, self._first_bytes)
            self.waits = self._at < len(self._data)
        return first

    def take(self) -> bytes:
        """Remove the next slice, in the order of arrival: `slice_bytes` bytes, or all that wait when these are no more.

        No first message waits.
        """
        data, at = self._data, self._at
        end = at + self.slice_bytes
        if end < len(data):
            self._at = end
            return data[at:end]
        self.clear()
        return data[at:]

    def clear(self) -> None:
        """Remove all bytes, and the first message."""
        self.take_first()
        self._data = b""
        self._at = 0
        self.waits = False

    def took(self, size: int, took_ns: int) -> None:
        """To handle `size` bytes took `took_ns`: adapt `slice_bytes`, within SLICE_BYTES_MIN and SLICE_BYTES_MAX."""
        if took_ns > SLICE_NS:
            self.slice_bytes = max(SLICE_BYTES_MIN, min(size, self.slice_bytes) * SLICE_NS // took_ns)
        elif size == self.slice_bytes and size < SLICE_BYTES_MAX and 2 * took_ns <= SLICE_NS:
            self.slice_bytes = min(SLICE_BYTES_MAX, 2 * size)
