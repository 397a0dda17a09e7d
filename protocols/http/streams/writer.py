"""The formats of a stream: lines of JSON, server-sent events (HTML Living Standard, 9.2), JSON in WebSocket text frames."""

from __future__ import annotations

from typing import Final, Protocol, final

from wsproto.connection import Connection as Frames
from wsproto.events import Ping, TextMessage

RETRY_MS: Final = 2_000
"""Time after which a browser connects again."""


class Writer(Protocol):
    """Encodes the parts of a stream. Documents are JSON objects."""

    def start(self, cursor: str) -> bytes:
        """The bytes before the first message."""

    def message(self, document: bytes, cursor: str) -> bytes:
        """One message, and the position behind it; "": the stream has none."""

    def beat(self, cursor: str) -> bytes:
        """A heartbeat; the position may have moved over messages that were not wanted."""

    def problem(self, document: bytes) -> bytes:
        """The reason for which the stream ends."""

    def results(self, document: bytes) -> bytes:
        """Results of settlements that the client asked for on the stream itself."""


@final
class Lines:
    """One JSON object a line; a heartbeat is an empty line."""

    def start(self, cursor: str) -> bytes:
        """Nothing: the position is a field of the response."""
        return b""

    def message(self, document: bytes, cursor: str) -> bytes:
        """The message with the member `cursor`."""
        return document + b"\n" if not cursor else b'%b,"cursor":"%b"}\n' % (document[:-1], cursor.encode())

    def beat(self, cursor: str) -> bytes:
        """An empty line."""
        return b"\n"

    def problem(self, document: bytes) -> bytes:
        """An object with the one member `problem`."""
        return b'{"problem":%b}\n' % document

    def results(self, document: bytes) -> bytes:
        """The object itself."""
        return document + b"\n"


@final
class ServerEvents:
    """Server-sent events. An event without data only sets the id, with which a browser connects again."""

    def start(self, cursor: str) -> bytes:
        """The time after which to connect again, and the id with which to do so before there was a message."""
        return b"retry: %d\n%b\n" % (RETRY_MS, _id(cursor))

    def message(self, document: bytes, cursor: str) -> bytes:
        """An event of the default type."""
        return b"%bdata: %b\n\n" % (_id(cursor), document)

    def beat(self, cursor: str) -> bytes:
        """A comment, and the id."""
        return b":\n%b\n" % _id(cursor)

    def problem(self, document: bytes) -> bytes:
        """An event of type `problem`."""
        return b"event: problem\ndata: %b\n\n" % document

    def results(self, document: bytes) -> bytes:
        """Not used: a client cannot ask on such a stream."""
        return b""


def _id(cursor: str) -> bytes:
    return b"id: %b\n" % cursor.encode() if cursor else b""


@final
class TextFrames:
    """WebSocket text frames; each holds an object with a `type`: started, message, results, problem. A heartbeat is a ping."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def _frame(self, document: bytes) -> bytes:
        return self._frames.send(TextMessage(document.decode()))

    def start(self, cursor: str) -> bytes:
        """`started`, with the position."""
        return self._frame(b'{"type":"started","cursor":"%b"}' % cursor.encode() if cursor else b'{"type":"started"}')

    def message(self, document: bytes, cursor: str) -> bytes:
        """`message`, with its members."""
        more = b',"cursor":"%b"' % cursor.encode() if cursor else b""
        return self._frame(b'{"type":"message",%b%b}' % (document[1:-1], more))

    def beat(self, cursor: str) -> bytes:
        """A ping."""
        return self._frames.send(Ping())

    def problem(self, document: bytes) -> bytes:
        """`problem`."""
        return self._frame(b'{"type":"problem","problem":%b}' % document)

    def results(self, document: bytes) -> bytes:
        """`results`."""
        return self._frame(b'{"type":"results",%b' % document[1:])
