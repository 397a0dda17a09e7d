"""Block-wise transfer (RFC 7959): assembly of Block1 bodies, and values pinned for the reads of their Block2 blocks.

A Block option is a number: block number << 4 | more << 3 | size exponent, block size 2 ** (exponent + 4).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

ASSEMBLY_NS: Final = 93_000_000_000
PINNED_NS: Final = 93_000_000_000
BERT_EXPONENT: Final = 7
"""Size exponent of a payload of several blocks of 1,024 bytes, on streams only (RFC 8323, section 6). Reserved over UDP."""
BLOCK_BYTES_MAX: Final = 1_024
ASSEMBLY_BYTES: Final = 1_024
"""Memory of an unfinished body besides its bytes and the texts of its key."""
NETWORK_SHARE: Final = 8
"""Divisor of the budget: a network with more than 1/8 of it loses its own oldest body first."""
PINNED_BYTES: Final = 512
"""Memory of a pinned value besides its bytes: its key, its options and its entry."""
KEY_PART_BYTES: Final = 64
"""Memory of a text of a body's key, besides its characters."""

ReadKey = tuple[tuple[int, bytes], str]
"""(reader of the value: `Exchange.owner`, resource)."""


def block(number: int, more: bool, exponent: int) -> int:
    """The value of a Block option."""
    return number << 4 | (8 if more else 0) | exponent


def exponent_of(size: int) -> int:
    """The size exponent (SZX), 0 to 6, of the largest block of at most `size` bytes; 0 (16 bytes) for a smaller `size`."""
    return max(0, min(6, size.bit_length() - 5))


def start_of(number: int, exponent: int) -> int:
    """Byte of the body at which block `number` begins. Blocks of BERT_EXPONENT are counted in units of 1,024 bytes."""
    return number << (min(exponent, 6) + 4)


@final
class Assembly:
    """An unfinished Block1 body.

    key      identity of the body: peer, method, path, queries, Request-Tag
    due      monotonic ns of the drop
    charge   bytes counted in the budgets: `size`, ASSEMBLY_BYTES, and those of the key
    """

    __slots__ = ("bytes", "charge", "due", "key", "shares", "size")

    def __init__(self, key: object, shares: tuple[Share, Share], due: int) -> None:
        self.key = key
        self.shares = shares
        self.due = due
        self.bytes = bytearray()
        self.size = 0
        self.charge = 0


@final
class Share:
    """Unfinished bodies of one peer, or of one network.

    name     (False, peer) or (True, network)
    open     bodies by key, oldest first
    charge   bytes of these bodies counted in the budgets
    """

    __slots__ = ("charge", "name", "open")

    def __init__(self, name: tuple[bool, int]) -> None:
        self.name = name
        self.charge = 0
        self.open: OrderedDict[object, Assembly] = OrderedDict()


@final
class Assemblies:
    """Unfinished Block1 bodies of all peers. Each is dropped 93 s (MAX_TRANSMIT_WAIT) after its first block.

    Above the total budget the oldest body is dropped: one of the requesting network if that has more than 1/NETWORK_SHARE of
    the budget, else of any network. No network can thus drop all bodies of the others.

    Invariant: `charge` is the sum over `open`; the charge of each share is the sum over its bodies.

    open        bodies by key, oldest first
    shares      (False, peer) or (True, network) -> share
    charge      bytes of all bodies counted in the budget
    peer_max    budget in bytes for the bodies of one peer
    total_max   budget in bytes for all bodies
    dropped     bodies dropped because of a budget or their age
    """

    def __init__(self, peer_max: int, total_max: int) -> None:
        self.peer_max = peer_max
        self.total_max = total_max
        self.open: OrderedDict[object, Assembly] = OrderedDict()
        self.shares: dict[tuple[bool, int], Share] = {}
        self.charge = 0
        self.dropped = 0

    def begin(self, key: object, key_bytes: int, peer: int, network: int, now: int) -> None:
        """Start a body with block 0. `key_bytes`: memory of its key. Drops an unfinished body with the same key."""
        self.drop(key)
        shares = self._share((False, peer)), self._share((True, network))
        assembly = self.open[key] = Assembly(key, shares, now + ASSEMBLY_NS)
        for share in shares:
            share.open[key] = assembly
        self._charge(assembly, ASSEMBLY_BYTES + key_bytes)

    def _share(self, name: tuple[bool, int]) -> Share:
        share = self.shares.get(name)
        if share is None:
            share = self.shares[name] = Share(name)
        return share

    def size(self, key: object) -> int:
        """Bytes received so far; -1 without such a body."""
        assembly = self.open.get(key)
        return -1 if assembly is None else assembly.size

    def add(self, key: object, at: int, payload: bytes) -> bool:
        """Append the block that starts at byte `at`. False (4.08): a gap, no such body, or a body above a budget."""
        assembly = self.open.get(key)
        if assembly is None or assembly.size != at:
            return False
        of_peer, of_network = assembly.shares
        assembly.bytes += payload
        assembly.size += len(payload)
        self._charge(assembly, len(payload))
        while of_peer.charge > self.peer_max:
            self._evict(next(iter(of_peer.open.values())))
        while self.charge > self.total_max:
            greedy = of_network.open and of_network.charge * NETWORK_SHARE > self.total_max
            self._evict(next(iter((of_network.open if greedy else self.open).values())))
        return key in self.open

    def finish(self, key: object) -> bytes:
        """Remove the body and return its bytes. KeyError without such a body."""
        body = bytes(self.open[key].bytes)
        self.drop(key)
        return body

    def drop(self, key: object) -> None:
        """Drop an unfinished body, if there is one."""
        assembly = self.open.pop(key, None)
        if assembly is None:
            return
        self._charge(assembly, -assembly.charge)
        for share in assembly.shares:
            del share.open[key]
            if not share.open:
                del self.shares[share.name]

    def leave(self, peer: int) -> None:
        """Drop all bodies of a peer that has left."""
        while (share := self.shares.get((False, peer))) is not None:
            self.drop(next(iter(share.open)))

    def expire(self, now: int) -> None:
        """Drop bodies 93 s after their first block."""
        while self.open:
            oldest = next(iter(self.open.values()))
            if oldest.due > now:
                return
            self._evict(oldest)

    def _charge(self, assembly: Assembly, amount: int) -> None:
        assembly.charge += amount
        self.charge += amount
        for share in assembly.shares:
            share.charge += amount

    def _evict(self, assembly: Assembly) -> None:
        self.drop(assembly.key)
        self.dropped += 1


@final
class Pinned:
    """Values that peers read block by block, so that all blocks are of one version. Each is dropped 93 s after its last read.

    values      (peer, resource) -> (value, its bytes, monotonic ns of the drop), least recently read first
    bytes       bytes of all values and of the names of their resources, each with PINNED_BYTES
    bytes_max   limit on `bytes`; the least recently read value is dropped first
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.values: OrderedDict[ReadKey, tuple[object, int, int]] = OrderedDict()

    def put(self, key: ReadKey, value: object, size: int, now: int) -> None:
        """Pin `value` of `size` bytes under `key`, replacing an earlier one. A value larger than `bytes_max` is not pinned."""
        self.drop(key)
        size += PINNED_BYTES + len(key[1])
        if size > self.bytes_max:
            return
        while self.bytes + size > self.bytes_max:
            self.drop(next(iter(self.values)))
        self.values[key] = (value, size, now + PINNED_NS)
        self.bytes += size

    def get(self, key: ReadKey, now: int) -> object | None:
        """Pinned value, or None. It is kept for another 93 s."""
        found = self.values.get(key)
        if found is None:
            return None
        self.values[key] = (found[0], found[1], now + PINNED_NS)
        self.values.move_to_end(key)
        return found[0]

    def drop(self, key: ReadKey) -> None:
        """Drop a value, if there is one."""
        found = self.values.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def expire(self, now: int) -> None:
        """Drop values 93 s after their last read."""
        while self.values:
            key, found = next(iter(self.values.items()))
            if found[2] > now:
                return
            self.drop(key)
