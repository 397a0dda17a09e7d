"""A page of the duplicate table: the requests of one remote whose message ids share their upper eight bits.

    first slot 1 | base second 4 | entries of 4: tick 1 (0: none) | hash of the token 2 | code 1

The entry of a message id has the index of its lower eight bits minus `first slot`. A page ends with its last message id: a
lone request takes one entry, and most clients, which count their message ids up, fill the page. The second of an entry is
`base second + tick - 1`.
"""

from __future__ import annotations

from typing import Final

from domain.message.crc32 import crc32

SLOT_BITS: Final = 8
"""Lower bits of a message id, which select the entry in the page."""
SLOTS: Final = 256
HEAD_BYTES: Final = 5
STRIDE: Final = 4
TICKS_MAX: Final = 254
"""Range of a tick, in seconds from the base second on."""
NONE: Final = -1
EXECUTING: Final = 0x00
EMPTY_ACK: Final = 0xFF
"""Code of a request with an empty ACK: its response is a separate message."""


def new(slot: int, second: int) -> bytearray:
    """A page without entries that begins at `slot`."""
    return bytearray((slot,)) + second.to_bytes(4, "big")


def hash_of(token: bytes) -> int:
    """Hash of a token, 16 bits: it distinguishes a retransmission from another request under the same message id."""
    return crc32(token) & 0xFFFF


def find(page: bytearray, slot: int) -> int:
    """Byte index of the entry of `slot`; NONE without one."""
    first = page[0]
    if slot < first:
        return NONE
    at = HEAD_BYTES + STRIDE * (slot - first)
    return at if at < len(page) and page[at] else NONE


def second_of(page: bytearray, at: int) -> int:
    """Second of the entry at byte `at`."""
    return base_of(page) + page[at] - 1


def base_of(page: bytearray) -> int:
    """Second of an entry with tick 1."""
    return page[1] << 24 | page[2] << 16 | page[3] << 8 | page[4]


def newest(page: bytearray) -> int:
    """Second of the newest entry."""
    return base_of(page) + max(page[HEAD_BYTES::STRIDE]) - 1


def put(page: bytearray, slot: int, tick: int, token_hash: int) -> None:
    """Write the entry of a request in execution. `tick` is at most TICKS_MAX; call `age` before to ensure it."""
    if len(page) == HEAD_BYTES:
        page[0] = slot
    first = page[0]
    if slot < first:
        page[HEAD_BYTES:HEAD_BYTES] = bytes(STRIDE * (first - slot))
        page[0] = first = slot
    at = HEAD_BYTES + STRIDE * (slot - first)
    if at > len(page):
        page += bytes(at - len(page))
    entry = (tick << 24 | token_hash << 8 | EXECUTING).to_bytes(4, "big")
    if at == len(page):
        page += entry
    else:
        page[at : at + STRIDE] = entry


def age(page: bytearray, oldest: int) -> list[int]:
    """Make `oldest` the base second, and remove older entries. Returns the slots of the removed entries."""
    first = page[0]
    later = oldest - base_of(page)
    gone: list[int] = []
    for at in range(HEAD_BYTES, len(page), STRIDE):
        tick = page[at]
        if tick > later:
            page[at] = tick - later
        elif tick:
            page[at] = 0
            gone.append(first + (at - HEAD_BYTES) // STRIDE)
    start = HEAD_BYTES
    while start < len(page) and not page[start]:
        start += STRIDE
    if start < len(page):
        page[0] = first + (start - HEAD_BYTES) // STRIDE
    del page[HEAD_BYTES:start]
    page[1:HEAD_BYTES] = oldest.to_bytes(4, "big")
    return gone
