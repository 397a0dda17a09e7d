"""Sockets in memory: a stream that its peer may stop reading, and a bound datagram socket."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from gateway.connection.pump import Pump
from tests.simulation.kit.network import OpenTransport

READS_PER_TURN = 32
"""Reads of one socket in one turn of the real loop, as long as each fills the buffer."""
KERNEL_BYTES = 1024 * 1024
"""Bytes that the operating system takes for a peer: from turn to turn if it reads, and once if it does not."""
SENT_BYTES = 64 * 1024
"""Bytes that are sent as one piece, so that what the node has read takes no memory."""
RECEIVED_BYTES_KEPT = 64 * 1024
DATAGRAM_BUFFER_BYTES = 4 * 1024 * 1024


class PeerStream(OpenTransport):
    """One stream connection: for the peer `send`, `hang_up` and what it has received, for the pump its transport.

    pump         the node's end
    reads        False: the peer does not read; the node's bytes stay in the kernel, and then with the node
    arriving     bytes that were sent and not read by the node yet
    received     the last bytes that the peer has read, at most `kept_bytes`
    taken        bytes that the peer has read
    closed       True: the connection has ended
    ended        True: the node has finished sending
    """

    def __init__(self, pump: Pump, host: str, port: int) -> None:
        super().__init__((host, port), ("10.0.0.1", 1))
        self.pump = pump
        self._arriving: deque[bytes] = deque()
        self.arriving = 0
        self._eof = False
        self._node_reads = True
        self._high = 64 * 1024
        self._stalled = False
        self._closing = False
        self._error: ConnectionResetError | None = None
        self._leaving = bytearray()
        self.reads = True
        self.received = bytearray()
        self.kept_bytes = RECEIVED_BYTES_KEPT
        self.taken = 0
        self.closed = False
        self.ended = False

    # The peer

    def send(self, data: bytes) -> None:
        """Send bytes, which arrive from the next turn on."""
        if not self._eof:
            self._arriving.extend(data[at : at + SENT_BYTES] for at in range(0, len(data), SENT_BYTES))
            self.arriving += len(data)

    def hang_up(self, reset: bool = False) -> None:
        """End the connection behind the bytes that were sent, or at once."""
        self._eof = True
        if reset:
            self._error = ConnectionResetError("simulated")

    @property
    def in_kernel(self) -> int:
        """Bytes that the operating system holds for the peer."""
        return min(len(self._leaving), KERNEL_BYTES)

    @property
    def unread(self) -> int:
        """Bytes that wait in the node for the peer."""
        return max(0, len(self._leaving) - KERNEL_BYTES)

    # One turn of the loop

    def open(self) -> None:
        """Accept the connection."""
        self.pump.connection_made(self)

    def poll(self) -> None:
        """Let the node read, and the peer."""
        if self.closed:
            return
        if self._error is not None or (self._closing and not (self._leaving and self.reads)):
            self.closed = True
            self.pump.connection_lost(self._error)
            return
        for _ in range(READS_PER_TURN):
            if not (self._node_reads and self._arriving) or self.closed:
                break
            buffer = self.pump.get_buffer(-1)
            size = 0
            while self._arriving and size < len(buffer):
                data = self._arriving.popleft()
                if len(data) > len(buffer) - size:
                    self._arriving.appendleft(data[len(buffer) - size :])
                    data = data[: len(buffer) - size]
                buffer[size : size + len(data)] = data
                size += len(data)
            self.arriving -= size
            self.pump.buffer_updated(size)
            if size < len(buffer):
                break
        if self._eof and self._node_reads and not self._arriving and not self.closed:
            self._node_reads = False
            if not self.pump.eof_received() or self.ended:
                self._closing = True
        if self.reads and self._leaving:
            data = bytes(self._leaving[:KERNEL_BYTES])
            del self._leaving[: len(data)]
            self.taken += len(data)
            self.received += data
            del self.received[: -self.kept_bytes]
            if self._stalled and self.unread == 0:
                self._stalled = False
                self.pump.resume_writing()

    # Transport

    def write(self, data: bytes) -> None:
        if self.closed or self._closing:
            return
        self._leaving += data
        if self.unread > self._high and not self._stalled:
            self._stalled = True
            self.pump.pause_writing()

    def pause_reading(self) -> None:
        self._node_reads = False

    def resume_reading(self) -> None:
        self._node_reads = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def half_close(self) -> None:
        """What the node's `half_close` does to this transport."""
        self.ended = True
        if self._eof:
            self._closing = True

    def abort(self) -> None:
        self._closing = True
        self._leaving.clear()

    def close(self) -> None:
        """Close by the node, when the peer has read what was written."""
        self._closing = True

    def get_write_buffer_size(self) -> int:
        return self.unread


class PeerDatagrams:
    """The bound socket of a datagram port, and the part of the loop that watches it.

    answers   (datagrams, bytes) that were sent to each address
    last      last datagram that was sent to each address
    lost      datagrams that found no room in the kernel's buffer
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[bytes, tuple[str, int]]] = deque()
        self._readable: Callable[[], None] | None = None
        self.arriving = 0
        self.answers: dict[tuple[str, int], tuple[int, int]] = {}
        self.last: dict[tuple[str, int], bytes] = {}
        self.lost = 0

    def arrive(self, data: bytes, address: tuple[str, int]) -> None:
        """A datagram from `address`."""
        if self.arriving + len(data) > DATAGRAM_BUFFER_BYTES:
            self.lost += 1
            return
        self.arriving += len(data)
        self._queue.append((bytes(bytearray(data)), address))

    def poll(self) -> None:
        """Let the node read."""
        if self._queue and self._readable is not None:
            self._readable()

    # socket.socket

    def recvfrom(self, _: int) -> tuple[bytes, tuple[str, int]]:
        if not self._queue:
            raise BlockingIOError
        data, address = self._queue.popleft()
        self.arriving -= len(data)
        return data, address

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:
        count, size = self.answers.get(address, (0, 0))
        self.answers[address] = (count + 1, size + len(data))
        self.last[address] = bytes(data)
        return len(data)

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.1", 5683

    def setsockopt(self, *_: int) -> None:
        """Do nothing: the buffers are as large as the node asks for."""

    def close(self) -> None:
        self._readable = None

    # asyncio.AbstractEventLoop

    def add_reader(self, _: object, callback: Callable[..., None], *arguments: object) -> None:
        self._readable = partial(callback, *arguments)

    def remove_reader(self, _: object) -> None:
        self._readable = None

    def add_writer(self, _: object, callback: Callable[[], None]) -> None:
        raise AssertionError("the socket never blocks")

    def remove_writer(self, _: object) -> None:
        raise AssertionError("the socket never blocks")
