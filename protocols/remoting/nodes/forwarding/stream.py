"""Items between two nodes, in order and each once, over one connection after another. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.errors import GatewayError
from domain.limits import MILLISECOND_NS, REMOTING_FRAME_BYTES_MAX, SECOND_NS
from domain.ports import Clock, Timer
from protocols.remoting.nodes.calls.octets import Reader, WireError

VERSION: Final = 2
"""Version of the frames. A node speaks the version before too."""
UNSIZED: Final = 1
"""The version whose items do not say how long they are: behind one that cannot be read, no other can be found."""
VERSIONS: Final = (VERSION, UNSIZED)
"""Versions that this node speaks, the newest first."""
FRAME_BYTES: Final = 64 * 1024
"""Bytes after which a frame is closed: what is carried out in one turn of the loop is about one frame."""
ITEM_BYTES_MAX: Final = REMOTING_FRAME_BYTES_MAX - 2 * FRAME_BYTES
"""Bytes of one item: a frame with it is one of the remoting protocol."""
ITEMS_MAX: Final = 256
"""Items after which a frame is closed."""
AWAY_NS: Final = 10 * SECOND_NS
"""Time without a connection after which both sides give up the stream."""
TICK_NS: Final = SECOND_NS
"""Time between two signs of life."""
TELL_NS: Final = 100 * MILLISECOND_NS
TELL_FRAMES: Final = 32
"""Received frames are acknowledged at the latest after this time, or after this number of frames."""
_HEAD: Final = struct.Struct(">BqqI")
_SIZE: Final = struct.Struct(">I")


class SizeError(GatewayError):
    """An item is too large for a frame: it is not sent."""


class ItemError(WireError):
    """An item cannot be read. All others of its frame were taken, and the client of the item was notified."""


@final
class NodeStream:
    """One direction of items out and one in.

    A frame is: version 1 | number 8 | number up to which frames have come 8 | items 4 | items; before each item stands its
    length, 4 bytes. Number 0: it has no items, and only acknowledges. A frame is kept until the other node has acknowledged
    it; a new connection is sent the frames that the former one may have lost.

    version                of the frames, in both directions
    sized                  True: there was a connection, and items have a length, so that the other node passes over fields that
                           it does not know
    unacknowledged_bytes   bytes of frames that the other node has not acknowledged
    received               number of the last frame that has come
    _came                  number of the last frame that the other node has acknowledged
    _open                  items for the next frame
    _kept                  number -> its items; the number rises
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._send: Callable[[bytes], None] | None = None
        self._next = 1
        self._came = 0
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._count = 0
        self._kept: dict[int, tuple[int, bytes]] = {}
        self._notified = 0
        self._notify_timer: Timer | None = None
        self.received = 0
        self.unacknowledged_bytes = 0
        self.version = VERSION
        self.sized = False

    def put(self, pieces: list[bytes]) -> None:
        """Add an item, given as pieces of bytes; it goes out at the end of this turn. Raises SizeError."""
        size = 0
        for piece in pieces:
            size += len(piece)
        if size > ITEM_BYTES_MAX:
            raise SizeError(f"{size} bytes, at most {ITEM_BYTES_MAX} go between nodes")
        if not self._open:
            self._clock.call_soon(self.flush)
        self._open.append(_SIZE.pack(size))
        self._open += pieces
        self._count += 1
        self._open_bytes += size + 4
        if self._open_bytes >= FRAME_BYTES or self._count >= ITEMS_MAX:
            self.flush()

    def flush(self) -> None:
        """Send the items that were added."""
        if not self._open:
            return
        items = b"".join(self._open)
        number, count = self._next, self._count
        self._next = number + 1
        self._open = []
        self._open_bytes = self._count = 0
        self._kept[number] = (count, items)
        self.unacknowledged_bytes += len(items)
        if self._send is not None:
            self._notified = self.received
            self._send(self._frame(number, count, items))

    def _frame(self, number: int, count: int, items: bytes) -> bytes:
        if self.version == UNSIZED:
            items = _unsized(items)
        return _HEAD.pack(self.version, number, self.received, count) + items

    def connected(self, send: Callable[[bytes], None], came: int, version: int) -> None:
        """There is a connection; `send` gives it the body of a frame. The other node has the frames up to number `came`.

        Raises WireError when that cannot be.
        """
        self._acknowledged(came)
        self.version = version
        self.sized = version != UNSIZED
        self._send = send
        for number, (count, items) in self._kept.items():
            send(self._frame(number, count, items))
        self._notified = self.received

    def lost(self) -> None:
        """The connection is gone. Items that are added meanwhile are kept."""
        self._send = None

    def notify(self) -> None:
        """Acknowledge the received frames, also when there are none: the other node learns that this one is alive."""
        if self._send is not None:
            self._notified = self.received
            self._send(self._frame(0, 0, b""))

    def take(self, body: bytes) -> tuple[int, Reader]:
        """A frame has come: (number of its items, a reader that is at the first one); (0, …) for one that had come before.

        Raises WireError: the stream has to be given up.
        """
        reader = Reader(body)
        version, number, came, count = reader.unpack(_HEAD)
        if version != self.version:
            raise WireError(f"a frame is of version {version}, and {self.version} was agreed")
        self._acknowledged(came)
        if 0 <= number <= self.received:
            return 0, reader
        if number != self.received + 1:
            raise WireError(f"frame {number} came behind frame {self.received}")
        self.received = number
        if number - self._notified >= TELL_FRAMES:
            self.notify()
        elif self._notify_timer is None:
            self._notify_timer = self._clock.call_at(self._clock.monotonic_ns() + TELL_NS, self._notify_late)
        return count, reader

    def take_all(
        self, body: bytes, takers: Mapping[int, Callable[[Reader], None]], unread: Callable[[Reader, WireError], None]
    ) -> None:
        """Take a frame, and give each of its items to the one that takes items of its kind, which is the first byte.

        `unread` gets an item that its taker could not read, and finds its client; it raises WireError when it cannot. Then
        comes ItemError behind the last item: the connection has to be closed, and nothing is lost. Any other WireError: the
        stream has to be given up, because nobody knows who waits for the items that were not taken.
        """
        count, reader = self.take(body)
        sized = reader.sized = self.version != UNSIZED
        wrong: WireError | None = None
        end = len(body)
        for _ in range(count):
            if not sized:
                _taken(reader, takers)
                continue
            size = reader.unpack(_SIZE)[0]
            at = reader.at
            if size > end - at:
                raise WireError(f"an item of {size} bytes begins at {at} of {end}")
            reader.bound(at + size)
            try:
                _taken(reader, takers)
            except WireError as error:
                unread(Reader(body, at, at + size), error)
                wrong = error
            reader.bound(end)
            reader.at = at + size
        if wrong is not None:
            raise ItemError(str(wrong))

    def _notify_late(self) -> None:
        self._notify_timer = None
        if self._notified != self.received:
            self.notify()

    def _acknowledged(self, came: int) -> None:
        if came >= self._next or came < self._came:
            raise WireError(f"frame {came} is told to be the last that came: {self._came} was, {self._next - 1} were sent")
        self._came = came
        kept = self._kept
        while kept:
            number = next(iter(kept))
            if number > came:
                break
            self.unacknowledged_bytes -= len(kept.pop(number)[1])


def _taken(reader: Reader, takers: Mapping[int, Callable[[Reader], None]]) -> None:
    kind = reader.take(1)[0]
    taker = takers.get(kind)
    if taker is None:
        raise WireError(f"an item of kind {kind} is not known")
    taker(reader)


def _unsized(items: bytes) -> bytes:
    """Items without their lengths, as version 1 has them."""
    found: list[bytes] = []
    reader = Reader(items)
    while reader.left:
        found.append(reader.data())
    return b"".join(found)
