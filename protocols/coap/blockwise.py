"""Bodies in blocks (RFC 7959): assembly of Block1 requests, and versions of values pinned while their Block2 blocks are read.

A Block option is a number: block number << 4 | more << 3 | size exponent, block size 2 ** (exponent + 4).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

ASSEMBLY_NS: Final = 93_000_000_000
PINNED_NS: Final = 93_000_000_000
RESERVED_EXPONENT: Final = 7
ASSEMBLY_BYTES: Final = 512


def block(number: int, more: bool, exponent: int) -> int:
    """The value of a Block option."""
    return number << 4 | (8 if more else 0) | exponent


def exponent_of(size: int) -> int:
    """The size exponent of the largest block of at most `size` bytes, at least 0 (16 bytes)."""
    return max(0, min(6, size.bit_length() - 5))


@final
class Assembly:
    """A body on its way in. `charge`: what it counts for in the budgets, its bytes and its own weight."""

    __slots__ = ("charge", "due", "key", "parts", "peer", "size")

    def __init__(self, key: object, peer: int, due: int) -> None:
        self.key = key
        self.peer = peer
        self.due = due
        self.parts: list[bytes] = []
        self.size = 0
        self.charge = 0


@final
class Share:
    """Unfinished bodies of one peer, oldest first, and what they count for together."""

    __slots__ = ("charge", "open")

    def __init__(self) -> None:
        self.charge = 0
        self.open: OrderedDict[object, Assembly] = OrderedDict()


@final
class Assemblies:
    """Unfinished Block1 bodies of all peers, oldest first, each for at most 93 s (MAX_TRANSMIT_WAIT).

    Invariant: `charge` is the sum over `open`, and each share's is the sum over the bodies of its peer.
    """

    __slots__ = ("charge", "dropped", "open", "peer_max", "shares", "total_max")

    def __init__(self, peer_max: int, total_max: int) -> None:
        self.peer_max = peer_max
        self.total_max = total_max
        self.open: OrderedDict[object, Assembly] = OrderedDict()
        self.shares: dict[int, Share] = {}
        self.charge = 0
        self.dropped = 0

    def begin(self, key: object, peer: int, now: int) -> None:
        """Block 0 has come: start anew, dropping an unfinished body under the same key."""
        self.drop(key)
        assembly = Assembly(key, peer, now + ASSEMBLY_NS)
        share = self.shares.get(peer)
        if share is None:
            share = self.shares[peer] = Share()
        self.open[key] = assembly
        share.open[key] = assembly
        self._charge(assembly, share, ASSEMBLY_BYTES)

    def size(self, key: object) -> int:
        """Bytes that have come so far; -1 when there is no such body."""
        assembly = self.open.get(key)
        return -1 if assembly is None else assembly.size

    def add(self, key: object, at: int, payload: bytes) -> bool:
        """Put the block that starts at byte `at`. False: a gap, or the body has been dropped, for a budget too (4.08)."""
        assembly = self.open.get(key)
        if assembly is None or assembly.size != at:
            return False
        share = self.shares[assembly.peer]
        assembly.parts.append(payload)
        assembly.size += len(payload)
        self._charge(assembly, share, len(payload))
        while share.charge > self.peer_max:
            self._evict(next(iter(share.open.values())))
        while self.charge > self.total_max:
            self._evict(next(iter(self.open.values())))
        return key in self.open

    def finish(self, key: object) -> bytes:
        """The whole body; its assembly is over."""
        body = b"".join(self.open[key].parts)
        self.drop(key)
        return body

    def drop(self, key: object) -> None:
        """Forget an unfinished body; harmless when there is none."""
        assembly = self.open.pop(key, None)
        if assembly is None:
            return
        share = self.shares[assembly.peer]
        del share.open[key]
        self._charge(assembly, share, -assembly.charge)
        if not share.open:
            del self.shares[assembly.peer]

    def expire(self, now: int) -> None:
        """Drop bodies that were begun more than 93 s ago."""
        while self.open:
            oldest = next(iter(self.open.values()))
            if oldest.due > now:
                return
            self._evict(oldest)

    def _charge(self, assembly: Assembly, share: Share, amount: int) -> None:
        assembly.charge += amount
        share.charge += amount
        self.charge += amount

    def _evict(self, assembly: Assembly) -> None:
        self.drop(assembly.key)
        self.dropped += 1


@final
class Pinned:
    """Values being read block by block: (peer, resource) -> value, for 93 s after it was last read, within a byte budget."""

    __slots__ = ("bytes", "bytes_max", "values")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.values: OrderedDict[object, tuple[object, int, int]] = OrderedDict()

    def put(self, key: object, value: object, size: int, now: int) -> None:
        """Pin `value` of `size` bytes, replacing what was pinned under `key`. Larger than the whole budget: not pinned."""
        self.drop(key)
        if size > self.bytes_max:
            return
        while self.bytes + size > self.bytes_max:
            self.drop(next(iter(self.values)))
        self.values[key] = (value, size, now + PINNED_NS)
        self.bytes += size

    def get(self, key: object, now: int) -> object | None:
        """The pinned value, kept for another 93 s; None when there is none."""
        found = self.values.get(key)
        if found is None:
            return None
        self.values[key] = (found[0], found[1], now + PINNED_NS)
        self.values.move_to_end(key)
        return found[0]

    def drop(self, key: object) -> None:
        """Let go of a value; harmless when there is none."""
        found = self.values.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def expire(self, now: int) -> None:
        """Let go of what was not read for 93 s."""
        while self.values:
            key, found = next(iter(self.values.items()))
            if found[2] > now:
                return
            self.drop(key)
