"""Calls of the kernel that read and write datagrams: one by one, or many at once (recvmmsg and sendmmsg of Linux).

A datagram that is read alone takes a system call, a buffer of the largest size, and a new tuple for an address that has been
seen before; one that is written alone takes the parsing of its address. Many at once take that once.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from gateway.runtime.datagrams.inbox import Address

Datagram = tuple[bytes, Address]

BYTES_MAX: Final = 65_535
SLOTS: Final = 64
"""Datagrams of one call."""
STRIDE: Final = BYTES_MAX + 1 + 1_088
"""From one receive buffer to the next: no power of two, or their beginnings would displace one another in the cache."""
WRITTEN_BYTES: Final = 2 * BYTES_MAX
"""Bytes that one call writes at most."""
NAME_BYTES: Final = 16
"""sockaddr_in: family 2, in the machine's order | port 2 | address 4 | zero 8."""
KNOWN_BYTES: Final = 8
"""Those of them that are not zero."""
HEADER: Final = struct.Struct("QI4xQQQQI4xI4x")
"""struct mmsghdr of 64-bit Linux: name, its length, vector, its length, control, its length, flags | length of the datagram."""
VECTOR: Final = struct.Struct("QQ")
"""struct iovec: address, length."""
ADDRESSES_MAX: Final = 4_096
DONTWAIT: Final = 0x40
AGAIN: Final = (errno.EAGAIN, errno.EINTR)
_BODY_AT: Final = HEADER.size // 4 - 2
"""Place of the length of a datagram in its header, in words of four bytes."""


class DatagramCalls(Protocol):
    """Reads and writes of a pump at its sockets.

    lost     datagrams of the last `write` that could not be sent: unreachable, or larger than the path allows
    written  bytes of the others
    """

    lost: int
    written: int

    def read(self, bound: socket.socket, most: int) -> list[Datagram]:
        """The next datagrams of a socket, in order, at most `most`; fewer when there are no more."""

    def write(self, bound: socket.socket, datagrams: Sequence[Datagram]) -> int:
        """Write datagrams in order. Returns how many are done with: the rest finds no room in the buffer of the socket."""


@final
class SingleCalls:
    """One datagram a call: every system has it."""

    __slots__ = ("lost", "written")

    def __init__(self) -> None:
        self.lost = 0
        self.written = 0

    def read(self, bound: socket.socket, most: int) -> list[Datagram]:
        """DatagramCalls.read."""
        found: list[Datagram] = []
        receive = bound.recvfrom
        for _ in range(most):
            try:
                data, address = receive(BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # a peer's port was closed (ICMP); the next datagram is behind it
                continue
            found.append((data, address if len(address) == 2 else address[:2]))
        return found

    def write(self, bound: socket.socket, datagrams: Sequence[Datagram]) -> int:
        """DatagramCalls.write."""
        send = bound.sendto
        self.lost = self.written = 0
        done = 0
        for data, address in datagrams:
            try:
                self.written += send(data, address)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.lost += 1
            done += 1
        return done


@final
class ManyCalls:
    """SLOTS datagrams a call, over IPv4.

    _read, _write   recvmmsg and sendmmsg
    _fresh          the headers of receiving as each call finds them: the kernel changes lengths of names
    _senders        name as the kernel writes it -> address
    """

    def __init__(self, read: Callable[..., int], write: Callable[..., int]) -> None:
        self.lost = 0
        self.written = 0
        self._read = read
        self._write = write
        self.addresses_max = ADDRESSES_MAX
        self._alone = SingleCalls()
        self._senders: dict[bytes, Address] = {}
        self._names: dict[Address, bytes] = {}
        self._incoming = bytearray(SLOTS * STRIDE)
        self._from = bytearray(SLOTS * NAME_BYTES)
        self._outgoing = bytearray(WRITTEN_BYTES)
        self._to = bytearray(SLOTS * NAME_BYTES)
        self._parts = bytearray(SLOTS * VECTOR.size)
        self._body_at = _place(self._outgoing)
        into = bytearray(b"".join([VECTOR.pack(_place(self._incoming) + at * STRIDE, BYTES_MAX) for at in range(SLOTS)]))
        self._kept = into  # its address is in the headers
        self._fresh = _headers(_place(self._from), _place(into))
        self._reading = bytearray(self._fresh)
        self._lengths = memoryview(self._reading).cast("I")
        self._bytes = memoryview(self._incoming)
        self._reading_at = _place(self._reading)
        self._writing = bytearray(_headers(_place(self._to), _place(self._parts)))
        self._writing_at = _place(self._writing)

    def read(self, bound: socket.socket, most: int) -> list[Datagram]:
        """DatagramCalls.read."""
        found: list[Datagram] = []
        number = bound.fileno()
        left = most
        while left > 0:
            wanted = min(left, SLOTS)
            self._reading[:] = self._fresh
            count = self._read(number, self._reading_at, wanted, DONTWAIT, None)
            if count < 0:
                if ctypes.get_errno() in AGAIN:
                    break
                left -= 1  # a peer's port was closed (ICMP); the next datagram is behind it
                continue
            self._take(found, count)
            left -= count
            if count < wanted:
                break
        return found

    def _take(self, found: list[Datagram], count: int) -> None:
        """Append the datagrams of one call."""
        lengths, incoming, names, senders = self._lengths, self._bytes, self._from, self._senders
        at = 0
        for slot in range(count):
            data = incoming[at : at + lengths[16 * slot + _BODY_AT]].tobytes()
            at += STRIDE
            name = bytes(names[NAME_BYTES * slot : NAME_BYTES * slot + KNOWN_BYTES])
            address = senders.get(name)
            if address is None:
                address = self._sender(name)
            found.append((data, address))

    def _sender(self, name: bytes) -> Address:
        if len(self._senders) >= self.addresses_max:
            self._senders.clear()
        address = self._senders[name] = (socket.inet_ntoa(name[4:8]), name[2] << 8 | name[3])
        return address

    def write(self, bound: socket.socket, datagrams: Sequence[Datagram]) -> int:
        """DatagramCalls.write."""
        self.lost = self.written = 0
        alone = self._alone
        done = 0
        while done < len(datagrams):
            some = self._fitting(datagrams, done)
            sent = self._write_some(bound.fileno(), some) if len(some) > 1 else 0
            done += sent
            if sent < len(some):  # the next one alone says why it cannot be sent
                if not alone.write(bound, datagrams[done : done + 1]):
                    break
                done += 1
                self.lost += alone.lost
                self.written += alone.written
        return done

    @staticmethod
    def _fitting(datagrams: Sequence[Datagram], first: int) -> Sequence[Datagram]:
        """The next datagrams that one call writes; at least one."""
        size = 0
        last = min(first + SLOTS, len(datagrams))
        for at in range(first, last):
            size += len(datagrams[at][0])
            if size > WRITTEN_BYTES:
                last = max(at, first + 1)
                break
        return datagrams if first == 0 and last == len(datagrams) else datagrams[first:last]

    def _write_some(self, number: int, some: Sequence[Datagram]) -> int:
        """Write datagrams, which fit. Returns the number of those that were sent."""
        names: list[bytes] = []
        bodies: list[bytes] = []
        parts: list[int] = []
        known, at = self._names, self._body_at
        for data, address in some:
            name = known.get(address)
            if name is None:
                name = self._name(address)
            names.append(name)
            bodies.append(data)
            parts.append(at)
            parts.append(len(data))
            at += len(data)
        self._outgoing[: at - self._body_at] = b"".join(bodies)
        self._to[: NAME_BYTES * len(names)] = b"".join(names)
        struct.pack_into(f"{len(parts)}Q", self._parts, 0, *parts)
        sent: int = max(0, self._write(number, self._writing_at, len(names), DONTWAIT))
        self.written += sum([len(data) for data in bodies[:sent]])
        return sent

    def _name(self, address: Address) -> bytes:
        if len(self._names) >= self.addresses_max:
            self._names.clear()
        host, port = address
        front = socket.AF_INET.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big")
        name = self._names[address] = front + socket.inet_aton(host) + bytes(NAME_BYTES - KNOWN_BYTES)
        return name


def calls_for(bound: socket.socket) -> DatagramCalls:
    """The calls for sockets like `bound`: many at once where the system has them and addresses are those of IPv4."""
    if getattr(bound, "family", None) != socket.AF_INET or sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return SingleCalls()
    try:
        library = ctypes.CDLL(None, use_errno=True)
        read, write = library.recvmmsg, library.sendmmsg
    except (AttributeError, OSError):
        return SingleCalls()
    read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]
    write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
    return ManyCalls(read, write)


def _place(buffer: bytearray) -> int:
    """The address of a buffer, which keeps its size from now on."""
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def _headers(names: int, vectors: int) -> bytes:
    """Headers of SLOTS datagrams, whose names and vectors begin at these addresses."""
    return b"".join(
        [HEADER.pack(names + at * NAME_BYTES, NAME_BYTES, vectors + at * VECTOR.size, 1, 0, 0, 0, 0) for at in range(SLOTS)]
    )
