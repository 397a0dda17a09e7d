"""Sockets that share a datagram port: the kernel divides datagrams by the sender's host.

A flood fills the receive buffer of one socket, and the kernel drops all that find no room, of any sender. With one buffer
for a part of the hosts, a host that sends too much loses its own datagrams, and those of few others.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Final, final

from domain.address import network_of_host
from gateway.runtime.datagrams.inbox import Address, Inbox

SOCKETS: Final = 16
"""Sockets of one port, a power of two: hosts are divided into as many groups, each with a buffer of its own."""
SO_ATTACH_REUSEPORT_CBPF: Final = getattr(socket, "SO_ATTACH_REUSEPORT_CBPF", 51)
"""Linux 4.5: socket(7)."""
SO_ATTACH_FILTER: Final = getattr(socket, "SO_ATTACH_FILTER", 26)
SO_DETACH_FILTER: Final = getattr(socket, "SO_DETACH_FILTER", 27)
_NETWORK_HEADER: Final = 0xFFF00000
"""SKF_NET_OFF of linux/filter.h: offsets from here on count from the IP header."""
_GOLDEN: Final = 0x9E3779B1
"""2^32 divided by the golden ratio: its multiples spread neighbouring addresses over the highest bits."""
_LOAD_BYTE, _LOAD_HALF, _LOAD_WORD = 0x30, 0x28, 0x20
_SHIFT, _IS, _TO_X, _XOR_X, _TIMES, _RETURN = 0x74, 0x15, 0x07, 0xAC, 0x24, 0x16
_JUMP: Final = 0x05
_RETURN_K: Final = 0x06
_PROGRAM: Final = (
    (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
    (_SHIFT, 0, 0, 4),
    (_IS, 0, 2, 4),
    (_LOAD_WORD, 0, 0, _NETWORK_HEADER + 12),  # IPv4: the source address
    (_JUMP, 0, 0, 4),
    (_LOAD_WORD, 0, 0, _NETWORK_HEADER + 8),  # IPv6: the network of the source address, 64 bits
    (_TO_X, 0, 0, 0),
    (_LOAD_WORD, 0, 0, _NETWORK_HEADER + 12),
    (_XOR_X, 0, 0, 0),
    (_TIMES, 0, 0, _GOLDEN),
    (_SHIFT, 0, 0, 32 - SOCKETS.bit_length() + 1),
    (_RETURN, 0, 0, 0),
)
"""Classic BPF, as (code, jump if true, jump if false, k): the number of the socket for a datagram."""


def share_by_host(bound: socket.socket) -> list[socket.socket]:
    """`bound` and more sockets of its address and port; `bound` alone where the kernel cannot divide by host.

    Since `bound` was bound without SO_REUSEPORT, a second process gets EADDRINUSE as for any port.
    """
    group = [bound]
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        for _ in range(SOCKETS - 1):
            twin = socket.socket(bound.family, socket.SOCK_DGRAM)
            group.append(twin)
            twin.setblocking(False)
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            twin.bind(bound.getsockname())
        _divide(bound)
    except (AttributeError, OSError):  # not Linux, or without this option
        for twin in group[1:]:
            twin.close()
        return [bound]
    return group


def _divide(bound: socket.socket) -> None:
    """Attach the program to the group. Raises OSError."""
    _attach(bound, SO_ATTACH_REUSEPORT_CBPF, _PROGRAM)


@final
class Floodgate:
    """Has the kernel drop the datagrams of one sender of a socket, from when they have no room until none of them waits.

    A sender is one address, or a host (`network_of_host`) with all its addresses. Without this, a node that is offered twice
    its capacity reads each datagram that it drops, only to find out its sender.

    _shut   socket -> the sender that is shut out: the host, and its address or None for all of them
    """

    def __init__(self) -> None:
        self._shut: dict[socket.socket, tuple[str, Address | None]] = {}

    def shut(self, bound: socket.socket, read: Sequence[tuple[bytes, Address]], hosts: bool) -> None:
        """Some of what was `read` found no room: shut out the sender of most of it, if there is one.

        hosts   False: a single address only; its host has room for its other addresses
        """
        if bound in self._shut:
            return
        ((sender, count),) = Counter([address for _, address in read]).most_common(1)
        only: Address | None = sender
        host = sender[0]
        if 2 * count <= len(read) and hosts:
            only = None
            ((host, count),) = Counter([address[0] for _, address in read]).most_common(1)
        network = network_of_host(host)
        if 2 * count > len(read) and shut_out(bound, network, sender[1] if only is not None else None):
            self._shut[bound] = network, only

    def let_in(self, inbox: Inbox) -> None:
        """Let in those of whom nothing waits any more."""
        for bound, (host, address) in list(self._shut.items()):
            if not inbox.waits(host, address):
                let_in(bound)
                del self._shut[bound]


def shut_out(bound: socket.socket, network: str, port: int | None = None) -> bool:
    """Have the kernel drop the datagrams of one host (`domain.address.network_of_host`), from all its ports or from one.

    False: it cannot do that here.
    """
    try:
        _attach(bound, SO_ATTACH_FILTER, _without(network, port))
    except (OSError, ValueError):
        return False
    return True


def let_in(bound: socket.socket) -> None:
    """End `shut_out`."""
    bound.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def _without(network: str, port: int | None) -> Sequence[tuple[int, int, int, int]]:
    """The program that takes all datagrams but those of one host and port. Raises ValueError for a text that is no address."""
    address = ipaddress.ip_address(network.partition("/")[0])
    words = struct.unpack(">I" if address.version == 4 else ">II8x", address.packed)
    first = _NETWORK_HEADER + (12 if address.version == 4 else 8)
    checks = [(_LOAD_WORD, first + 4 * number, word) for number, word in enumerate(words)]
    if port is not None:
        checks.append((_LOAD_HALF, 0, port))  # a socket's program sees a datagram from its UDP header on
    tests: list[tuple[int, int, int, int]] = []
    for number, (load, at, value) in enumerate(checks):
        others = 2 * (len(checks) - number) - 1
        tests += [(load, 0, 0, at), (_IS, 0, others, value)]
    version = [(_LOAD_BYTE, 0, 0, _NETWORK_HEADER), (_SHIFT, 0, 0, 4), (_IS, 0, len(tests) + 1, address.version)]
    return [*version, *tests, (_RETURN_K, 0, 0, 0), (_RETURN_K, 0, 0, 0xFFFFFFFF)]


def _attach(bound: socket.socket, option: int, program: Sequence[tuple[int, int, int, int]]) -> None:
    """Give a program to the kernel. Raises OSError."""
    code = b"".join([struct.pack("HBBI", *each) for each in program])
    memory = ctypes.create_string_buffer(code, len(code))
    bound.setsockopt(socket.SOL_SOCKET, option, struct.pack("HP", len(program), ctypes.addressof(memory)))
