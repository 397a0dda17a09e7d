"""The duplicate table: a request that arrives twice is executed once and answered with the same bytes
(RFC 7252, sections 4.2 and 4.5).

Two parts: that a request came, with the code of its response, in pages of about five bytes a request (`mid_page`); and the
response, if it has more than a code, in some 200 bytes. Where memory is short, responses go first: a later duplicate then gets
its code without options and payload. Nobody stores a message twice for it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, final

from protocols.coap import message, mid_page
from protocols.coap.mid_page import EMPTY_ACK, SLOT_BITS, SLOTS

SECOND_NS: Final = 1_000_000_000
EXCHANGE_LIFETIME_S: Final = 247
NON_LIFETIME_S: Final = 145
PROTECTED_S: Final = 45
PAGE_BYTES: Final = 200
"""Memory of a page besides its entries."""
ANSWER_BYTES: Final = 160
"""Memory of a response besides its bytes."""
CROWDED: Final = 0.375
"""Share of the table up to which one network may fill it."""
EXPIRED_PAGES_MAX: Final = 64
EXPIRED_ANSWERS_MAX: Final = 1_024
"""So many are removed at once."""
FREED_MAX: Final = 16
"""Pages and responses that are removed for one request."""
KEY_PORT_BITS: Final = 48
"""A key ends with 32 bits for the port and 16 for the message id."""
MAPPED: Final = 0xFFFF
"""What precedes an IPv4 address that is mapped to IPv6 (RFC 4291, 2.5.5.2)."""
NETWORK_SHARE: Final = 0.125
"""Share of the table that a network has whatever the others do."""


@final
class RecentRequests:
    """The recent requests by key (remote and message id), with their responses.

    Invariant: every page is in one list of `_queued`, under the second of its newest entry or an earlier one, and none under a
    second before `_oldest`. `networks` adds up to `bytes`.

    pages         upper bits of a key -> page
    answers       key -> encoded response, where it has more than a code
    networks      network -> memory of its pages and responses
    bytes         memory of all pages and responses
    bytes_max     the most that `bytes` can be before a response
    lifetime_s    age at which a request is forgotten, at most 247
    protected_s   age below which a request is never forgotten, and its response only to make room
    evicted       requests that were forgotten before `lifetime_s` to make room
    reduced       responses that were removed before `protected_s` to make room
    _reducible    keys of responses that may be removed before their requests, oldest first; some are gone already
    _second       the second of the last call
    """

    __slots__ = (
        "_crowded_bytes", "_oldest", "_queued", "_reducible", "_second", "_share_bytes", "answers", "bytes", "bytes_max",
        "evicted", "lifetime_s", "networks", "pages", "protected_s", "reduced",
    )  # fmt: skip

    def __init__(self, lifetime_s: int, bytes_max: int, protected_s: int = PROTECTED_S) -> None:
        self.lifetime_s = lifetime_s
        self.bytes_max = bytes_max
        self.protected_s = protected_s
        self.pages: dict[int, bytearray] = {}
        self.answers: dict[int, bytes] = {}
        self.networks: dict[int, int] = {}
        self.bytes = 0
        self.evicted = 0
        self.reduced = 0
        self._reducible: deque[int] = deque()
        self._queued: dict[int, list[int]] = {}
        self._oldest = 0
        self._second = -1
        self._crowded_bytes = math.ceil(bytes_max * CROWDED)
        self._share_bytes = math.ceil(bytes_max * NETWORK_SHARE)

    def code_of(self, key: int, now: int) -> int:
        """What became of the request: EXECUTING, EMPTY_ACK or the code of its response. NONE for a request that is new."""
        page = self.pages.get(key >> SLOT_BITS)
        if page is None:
            return mid_page.NONE
        at = mid_page.find(page, key & (SLOTS - 1))
        if at < 0 or mid_page.second_of(page, at) + self.lifetime_s <= now // SECOND_NS:
            return mid_page.NONE
        return page[at + 3]

    def answer(self, key: int, token: bytes) -> bytes:
        """The acknowledgement for a duplicate of a confirmable request that was answered.

        b"" when the token shows that this is another request under the same message id: it was not executed.
        """
        kept = self.answers.get(key)
        if kept is not None:
            return kept
        page = self.pages[key >> SLOT_BITS]
        at = mid_page.find(page, key & (SLOTS - 1))
        if page[at + 1] << 8 | page[at + 2] != mid_page.hash_of(token):
            return b""
        code = page[at + 3]
        if code == EMPTY_ACK:
            return message.empty(message.ACK, key & 0xFFFF)
        return message.encode(message.ACK, code, key & 0xFFFF, token, b"", b"")

    def begin(self, key: int, token: bytes, now: int) -> bool:
        """Add a request before it is executed. False: no room, do not execute it.

        There is no room when all requests are young; nor, in a table that is CROWDED, for a network that has more than
        NETWORK_SHARE of it. `code_of` is NONE for `key`.
        """
        second = self._second = now // SECOND_NS
        network = network_of(key)
        if self.bytes >= self._crowded_bytes and not self._free(network, second):
            return False
        name = key >> SLOT_BITS
        slot = key & (SLOTS - 1)
        page = self.pages.get(name)
        if page is None:
            if not self.pages:
                self._oldest = second
                self._queued.clear()
            self._drop(second - self.lifetime_s, 2)
            page = self.pages[name] = mid_page.new(slot, second)
            self._queue(name, second)
            before = -PAGE_BYTES
        else:
            before = len(page)
            if mid_page.find(page, slot) >= 0:
                self._forget_answer(key, network)
            if second - mid_page.base_of(page) >= mid_page.TICKS_MAX:
                for gone in mid_page.age(page, max(0, second - self.lifetime_s + 1)):
                    self._forget_answer(name << SLOT_BITS | gone, network)
        mid_page.put(page, slot, second, mid_page.hash_of(token))
        self._count(network, len(page) - before)
        return True

    def settle(self, key: int, code: int, answer: bytes, whole: bool) -> None:
        """The request was answered with `code`. Does nothing when it was forgotten.

        answer   the datagram, if it has more than the code; else b""
        whole    without its options and payload the response would be of no use, so it is kept as long as the request
        """
        page = self.pages.get(key >> SLOT_BITS)
        at = mid_page.find(page, key & (SLOTS - 1)) if page is not None else mid_page.NONE
        if page is None or at < 0:
            return
        page[at + 3] = code
        network = network_of(key)
        self._forget_answer(key, network)
        if answer:
            self.answers[key] = answer
            self._count(network, ANSWER_BYTES + len(answer))
            if not whole:
                self._reducible.append(key)
                self._age_answers(2)
            for _ in range(2):  # here too: a request that begins finds room though many were answered since the last one began
                if self._reducible and self._short(network):
                    self._reduce()

    def expire(self, now: int) -> bool:
        """Forget requests older than `lifetime_s`, and responses older than `protected_s`, in slices. True: more are left."""
        second = self._second = now // SECOND_NS
        handled = self._drop(second - self.lifetime_s, EXPIRED_PAGES_MAX)
        aged = self._age_answers(EXPIRED_ANSWERS_MAX)
        return handled == EXPIRED_PAGES_MAX or aged == EXPIRED_ANSWERS_MAX

    def _age_answers(self, most: int) -> int:
        """Forget the responses of older requests than `protected_s`, at most `most`. Returns the number of those."""
        last = self._second - self.protected_s
        for done in range(most):
            if not self._reducible or self._begun(self._reducible[0]) > last:
                return done
            key = self._reducible.popleft()
            self._forget_answer(key, network_of(key))
        return most

    def _begun(self, key: int) -> int:
        """The second of the request; NONE when it is forgotten."""
        page = self.pages.get(key >> SLOT_BITS)
        at = mid_page.find(page, key & (SLOTS - 1)) if page is not None else mid_page.NONE
        return mid_page.second_of(page, at) if page is not None and at >= 0 else mid_page.NONE

    def _free(self, network: int, second: int) -> bool:
        """Make room for a request of the network, of which there is none. False: there is none to make."""
        for _ in range(FREED_MAX):
            if not self._short(network):
                return True
            if self._reducible:
                self._reduce()
            elif not self._drop(second - self.protected_s, 1):
                return False
        return False

    def _short(self, network: int) -> bool:
        """True when there is no room for more of the network."""
        if self.bytes < self._crowded_bytes:
            return False
        return self.bytes >= self.bytes_max or self.networks.get(network, 0) >= self._share_bytes

    def _reduce(self) -> None:
        """Remove the oldest response that may go."""
        key = self._reducible.popleft()
        if key in self.answers:
            self.reduced += 1
            self._forget_answer(key, network_of(key))

    def _drop(self, last: int, most: int) -> int:
        """Remove pages without an entry younger than the second `last`, at most `most`. Returns the number of pages handled."""
        handled = 0
        while handled < most and self._oldest <= last and self.pages:
            names = self._queued.get(self._oldest)
            if not names:
                self._queued.pop(self._oldest, None)
                self._oldest += 1
                continue
            name = names.pop()
            handled += 1
            newest = mid_page.newest(self.pages[name])
            if newest > self._oldest:
                self._queue(name, newest)
            else:
                self._remove(name)
        return handled

    def _remove(self, name: int) -> None:
        page = self.pages.pop(name)
        first = name << SLOT_BITS | page[0]
        network = network_of(first)
        early = self._second - self.lifetime_s
        for at in range(mid_page.HEAD_BYTES, len(page), mid_page.STRIDE):
            if page[at]:
                self._forget_answer(first + (at - mid_page.HEAD_BYTES) // mid_page.STRIDE, network)
                if mid_page.second_of(page, at) > early:
                    self.evicted += 1
        self._count(network, -PAGE_BYTES - len(page))

    def _queue(self, name: int, second: int) -> None:
        names = self._queued.get(second)
        if names is None:
            self._queued[second] = [name]
        else:
            names.append(name)

    def _forget_answer(self, key: int, network: int) -> None:
        answer = self.answers.pop(key, None)
        if answer is not None:
            self._count(network, -ANSWER_BYTES - len(answer))

    def _count(self, network: int, more: int) -> None:
        self.bytes += more
        mine = self.networks.get(network, 0) + more
        if mine:
            self.networks[network] = mine
        else:
            self.networks.pop(network, None)


def network_of(key: int) -> int:
    """The network of a remote's key: its IPv4 address, mapped to IPv6 or not, or the first 64 bits of its IPv6 address."""
    address = key >> KEY_PORT_BITS
    if address >> 32 == 0 or address >> 32 == MAPPED:
        return address & 0xFFFFFFFF
    return address >> 64
