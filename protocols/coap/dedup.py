"""The duplicate table: a request that arrives twice is executed once and answered with the same bytes
(RFC 7252, sections 4.2 and 4.5).

One entry is a number, a reference in a queue and the response: about 200 bytes in all. Times of arrival are kept per second,
not per entry. A peer cannot have more than 65,536 entries, because a message id has 16 bits.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, final

SECOND_NS: Final = 1_000_000_000
EXCHANGE_LIFETIME_S: Final = 247
NON_LIFETIME_S: Final = 145
PROTECTED_S: Final = 45
ENTRY_BYTES: Final = 144
"""Memory of an entry besides the bytes of its response."""
CROWDED: Final = 0.375
"""Share of the table up to which one network may fill it."""
EXPIRED_MAX: Final = 4_096
"""Entries that are removed at once."""
KEY_PORT_BITS: Final = 48
"""A key ends with 32 bits for the port and 16 for the message id."""
MAPPED: Final = 0xFFFF
"""What precedes an IPv4 address that is mapped to IPv6 (RFC 4291, 2.5.5.2)."""
NETWORK_SHARE: Final = 0.125
"""Share of the table that a network has whatever the others do."""


@final
class Answers:
    """The encoded responses to recent requests, by key (remote and message id).

    Invariant: `order` has the keys of `answers` in order of arrival; the counts in `seconds` add up to its length, and those in
    `networks` too.

    answers       key -> encoded response; b"" while the request is in execution
    order         keys, oldest first
    seconds       how many of the keys came in each second, oldest first
    networks      network -> entries
    bytes         memory of all entries
    bytes_max     the most that `bytes` can be
    lifetime_s    age at which an entry is removed
    protected_s   age below which an entry is never evicted
    evicted       entries that were removed before `lifetime_s` to make room
    _crowded_bytes   `bytes` from which the table is CROWDED
    _share_entries   entries that are NETWORK_SHARE of the table
    """

    __slots__ = (
        "_crowded_bytes", "_share_entries", "answers", "bytes", "bytes_max", "evicted", "lifetime_s", "networks", "order",
        "protected_s", "seconds",
    )  # fmt: skip

    def __init__(self, lifetime_s: int, bytes_max: int, protected_s: int = PROTECTED_S) -> None:
        self.lifetime_s = lifetime_s
        self.bytes_max = bytes_max
        self.protected_s = protected_s
        self.answers: dict[int, bytes] = {}
        self.order: deque[int] = deque()
        self.seconds: deque[list[int]] = deque()
        self.networks: dict[int, int] = {}
        self.bytes = 0
        self.evicted = 0
        self._crowded_bytes = math.ceil(bytes_max * CROWDED)
        self._share_entries = math.ceil(bytes_max * NETWORK_SHARE / ENTRY_BYTES)

    def begin(self, key: int, now: int) -> bool:
        """Add a request before it is executed, with b"" as its response until `settle`. False: no room, do not execute it.

        There is no room when all entries are young; nor, in a table that is CROWDED, for a network that has more than
        NETWORK_SHARE of it. `key` must not be in the table.
        """
        second = now // SECOND_NS
        seconds = self.seconds
        if not seconds or seconds[-1][0] != second:
            self.expire(now)
            seconds.append([second, 0])
        network = network_of(key)
        mine = self.networks.get(network, 0)
        crowded = self.bytes >= self._crowded_bytes and mine >= self._share_entries
        if crowded or self.bytes >= self.bytes_max:
            if seconds[0][0] + self.protected_s > second:
                if not seconds[-1][1]:
                    seconds.pop()
                return False
            self._drop_oldest()
            self.evicted += 1
            mine = self.networks.get(network, 0)  # the oldest may have been of this network
        self.networks[network] = mine + 1
        self.answers[key] = b""
        self.bytes += ENTRY_BYTES
        self.order.append(key)
        seconds[-1][1] += 1
        return True

    def settle(self, key: int, answer: bytes) -> None:
        """Keep the bytes that were sent for `key` in place of earlier ones. Does nothing when the entry was removed."""
        before = self.answers.get(key)
        if before is not None:
            self.answers[key] = answer
            self.bytes += len(answer) - len(before)

    def expire(self, now: int) -> None:
        """Remove entries older than `lifetime_s`, at most EXPIRED_MAX of them; the next call goes on."""
        oldest = now // SECOND_NS - self.lifetime_s
        left = EXPIRED_MAX
        while left and self.seconds and self.seconds[0][0] <= oldest:
            self._drop_oldest()
            left -= 1

    def _drop_oldest(self) -> None:
        key = self.order.popleft()
        self.bytes -= ENTRY_BYTES + len(self.answers.pop(key))
        network = network_of(key)
        left = self.networks[network] - 1
        if left:
            self.networks[network] = left
        else:
            del self.networks[network]
        first = self.seconds[0]
        first[1] -= 1
        if not first[1]:
            self.seconds.popleft()


def network_of(key: int) -> int:
    """The network of a remote's key: its IPv4 address, mapped to IPv6 or not, or the first 64 bits of its IPv6 address."""
    address = key >> KEY_PORT_BITS
    if address >> 32 == 0 or address >> 32 == MAPPED:
        return address & 0xFFFFFFFF
    return address >> 64
