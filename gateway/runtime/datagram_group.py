"""Sockets that share a datagram port: the kernel divides what arrives by the sender's host.

A flood fills the receive buffer of one socket, and the kernel drops what finds no room, whoever has sent it. With one buffer
for a part of the hosts, a host that sends too much loses its own datagrams, and those of few others.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Sequence
from typing import Final

SOCKETS: Final = 16
"""Sockets of one port, a power of two: so many groups of hosts have a buffer of their own."""
SO_ATTACH_REUSEPORT_CBPF: Final = getattr(socket, "SO_ATTACH_REUSEPORT_CBPF", 51)
"""Linux 4.5: socket(7)."""
SO_ATTACH_FILTER: Final = getattr(socket, "SO_ATTACH_FILTER", 26)
SO_DETACH_FILTER: Final = getattr(socket, "SO_DETACH_FILTER", 27)
_NETWORK_HEADER: Final = 0xFFF00000
"""SKF_NET_OFF of linux/filter.h: offsets from here on count from the IP header."""
_GOLDEN: Final = 0x9E3779B1
"""2^32 divided by the golden ratio: its multiples spread neighbouring addresses over the highest bits."""
_LOAD_BYTE, _LOAD_WORD, _SHIFT, _IS, _TO_X, _XOR_X, _TIMES, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x07, 0xAC, 0x24, 0x16
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


def shut_out(bound: socket.socket, network: str) -> bool:
    """Have the kernel drop what comes from one host (`domain.address.network_of_host`). False: it cannot do that here.

    It costs the process nothing then; before, each datagram was read to find out whose it was.
    """
    try:
        _attach(bound, SO_ATTACH_FILTER, _without(network))
    except (OSError, ValueError):
        return False
    return True


def let_in(bound: socket.socket) -> None:
    """End `shut_out`."""
    bound.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def _without(network: str) -> Sequence[tuple[int, int, int, int]]:
    """The program that takes all datagrams but those of one host. Raises ValueError for a network that is no address."""
    address = ipaddress.ip_address(network.partition("/")[0])
    words = struct.unpack(">I" if address.version == 4 else ">II8x", address.packed)
    first = 12 if address.version == 4 else 8
    tests: list[tuple[int, int, int, int]] = []
    for number, word in enumerate(words):
        others = 2 * (len(words) - number) - 1
        tests += [(_LOAD_WORD, 0, 0, _NETWORK_HEADER + first + 4 * number), (_IS, 0, others, word)]
    version = [(_LOAD_BYTE, 0, 0, _NETWORK_HEADER), (_SHIFT, 0, 0, 4), (_IS, 0, len(tests) + 1, address.version)]
    return [*version, *tests, (_RETURN_K, 0, 0, 0), (_RETURN_K, 0, 0, 0xFFFFFFFF)]


def _attach(bound: socket.socket, option: int, program: Sequence[tuple[int, int, int, int]]) -> None:
    """Give a program to the kernel. Raises OSError."""
    code = b"".join([struct.pack("HBBI", *each) for each in program])
    memory = ctypes.create_string_buffer(code, len(code))
    bound.setsockopt(socket.SOL_SOCKET, option, struct.pack("HP", len(program), ctypes.addressof(memory)))
