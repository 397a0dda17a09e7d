"""The duplicate table: a request that arrives twice is executed once and answered with the same bytes
(RFC 7252, sections 4.2 and 4.5).

It has two parts: pages with the codes of the responses, about five bytes per request (`message_ids`), and the responses that
have more than a code, about 200 bytes each. When memory is short, responses are removed first: a later duplicate is then
answered with the code alone, and still not executed again.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final, final

from domain.limits import SECOND_NS
from protocols.coap.exchange import message_ids
from protocols.coap.exchange.message_ids import EMPTY_ACK, EXECUTING, SLOT_BITS, SLOTS
from protocols.coap.message import message

EXCHANGE_LIFETIME_S: Final = 247
NON_LIFETIME_S: Final = 145
PROTECTED_S: Final = 45
PAGE_BYTES: Final = 200
"""Memory of a page besides its entries."""
ANSWER_BYTES: Final = 160
"""Memory of a response besides its bytes."""
CROWDED: Final = 0.25
"""Filled share of the table from which on NETWORK_SHARE limits each network."""
EXPIRED_PAGES_MAX: Final = 64
EXPIRED_ANSWERS_MAX: Final = 1_024
"""Limits of one call of `expire`."""
FREED_MAX: Final = 16
"""Pages and responses removed for one new request, at most."""
KEY_PORT_BITS: Final = 48
"""Low bits of a key: 32 for the port and 16 for the message id."""
MAPPED: Final = 0xFFFF
"""Bits before an IPv4 address that is mapped to IPv6 (RFC 4291, 2.5.5.2)."""
NETWORK_SHARE: Final = 0.125
"""Share of the table that a network may fill in a CROWDED table."""


@final
class RecentRequests:
    """The recent requests by key (remote and message id), with their responses.

    Invariants: every page is in one list of `_queued`, under the second of its newest entry or an earlier one, and none under a
    second before `_oldest`. The values of `networks` add up to `bytes`. Each change of pages sets `_asked` to -1.

    pages         upper bits of a key -> page
    answers       key -> encoded response that has more than a code
    bytes         memory of all pages and responses
    bytes_max     limit on `bytes` for new requests; a response may exceed it
    lifetime_s    age in s at which a request is forgotten, at most 247
    evicted       requests forgotten before `lifetime_s` to make room
    reduced       responses removed before PROTECTED_S to make room
    _asked        key of the last `code_of`; `_name`, `_page` and `_at` are those of its page and entry
    _counted      network -> memory, without `_more`
    _first_s      second of the first key of `_reducible`; -1 when not looked up
    _last         network of the last change of memory
    _more         memory of `_last` that is not in `_counted` yet
    _oldest       earliest second in `_queued`
    _queued       second -> names of pages
    _reducible    keys of responses that may be removed before their requests, oldest first; some are already removed
    _second       second of the last call
    """

    def __init__(self, lifetime_s: int, bytes_max: int) -> None:
        self.lifetime_s = lifetime_s
        self.bytes_max = bytes_max
        self.pages: dict[int, bytearray] = {}
        self.answers: dict[int, bytes] = {}
        self._counted: dict[int, int] = {}
        self._last = 0
        self._more = 0
        self._asked = -1
        self._name = 0
        self._page: bytearray | None = None
        self._at = message_ids.NONE
        self._first_s = -1
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
        """State of a request: EXECUTING, EMPTY_ACK or the code of its response; NONE for a new request."""
        self._asked = key
        name = self._name = key >> SLOT_BITS
        page = self._page = self.pages.get(name)
        if page is None:
            return message_ids.NONE
        at = self._at = message_ids.find(page, key & (SLOTS - 1))
        if at < 0 or message_ids.second_of(page, at) + self.lifetime_s <= now // SECOND_NS:
            return message_ids.NONE
        return page[at + 3]

    def answer(self, key: int, token: bytes) -> bytes:
        """Acknowledgement for a duplicate of an answered confirmable request.

        b"" when the token differs: another request under the same message id, which was not executed.
        """
        kept = self.answers.get(key)
        if kept is not None:
            return kept
        page = self.pages[key >> SLOT_BITS]
        at = message_ids.find(page, key & (SLOTS - 1))
        if page[at + 1] << 8 | page[at + 2] != message_ids.hash_of(token):
            return b""
        code = page[at + 3]
        if code == EMPTY_ACK:
            return message.empty(message.ACK, key & 0xFFFF)
        return message.encode(message.ACK, code, key & 0xFFFF, token, b"", b"")

    def begin(self, key: int, token: bytes, now: int, network: int = -1) -> bool:
        """Add a request before its execution. False: no room, do not execute it. `network`: network of the key, -1: unknown.

        There is no room when all requests are young, nor, in a CROWDED table, for a network with NETWORK_SHARE of it or more.
        `code_of` is NONE for `key`.
        """
        second = self._second = now // SECOND_NS
        if network < 0:
            network = network_of(key)
        if self.bytes >= self._crowded_bytes:
            self._asked = -1
            if not self._free(network, second):
                return False
        slot = key & (SLOTS - 1)
        if key == self._asked:  # no other call came between
            name, page, at = self._name, self._page, self._at
        else:
            name = key >> SLOT_BITS
            page = self.pages.get(name)
            at = message_ids.find(page, slot) if page is not None else message_ids.NONE
        self._asked = -1
        base = second
        if page is None:
            if not self.pages:
                self._oldest = second
                self._queued.clear()
            self._drop(second - self.lifetime_s, 2)
            page = self.pages[name] = message_ids.new(slot, second)
            self._queue(name, second)
            before = -PAGE_BYTES
        else:
            before = len(page)
            if at >= 0:
                self._forget_answer(key, network)
            base = message_ids.base_of(page)
            if second - base >= message_ids.TICKS_MAX:
                base = max(0, second - self.lifetime_s + 1)
                for gone in message_ids.age(page, base):
                    self._forget_answer(name << SLOT_BITS | gone, network)
        message_ids.put(page, slot, second - base + 1, message_ids.hash_of(token))
        self._count(network, len(page) - before)
        return True

    def settle(self, key: int, code: int, answer: bytes, whole: bool, network: int = -1) -> None:
        """Set the response code of a request, unless the request was forgotten. `network` as in `begin`.

        answer   the datagram if it has more than the code, else b""
        whole    True: the code alone would be useless, and the response is kept as long as the request
        """
        page = self.pages.get(key >> SLOT_BITS)
        at = message_ids.find(page, key & (SLOTS - 1)) if page is not None else message_ids.NONE
        if page is None or at < 0:
            return
        if network < 0:
            network = network_of(key)
        if page[at + 3] != EXECUTING:
            self._forget_answer(key, network)
        page[at + 3] = code
        if answer:
            self.answers[key] = answer
            self._count(network, ANSWER_BYTES + len(answer))
            if not whole:
                self._reducible.append(key)
                if self._first_s <= self._second - PROTECTED_S:
                    self._age_answers(2)
            for _ in range(2):  # two per response: the next `begin` has room even after many responses
                if not self._short(network) or not self._reducible:
                    return
                self._reduce()

    def expire(self, now: int) -> bool:
        """Forget requests older than `lifetime_s` and responses older than PROTECTED_S, in slices. True: more are left."""
        second = self._second = now // SECOND_NS
        handled = self._drop(second - self.lifetime_s, EXPIRED_PAGES_MAX)
        aged = self._age_answers(EXPIRED_ANSWERS_MAX)
        return handled == EXPIRED_PAGES_MAX or aged == EXPIRED_ANSWERS_MAX

    def _age_answers(self, most: int) -> int:
        """Forget at most `most` responses to requests older than PROTECTED_S; returns the number of keys handled."""
        last = self._second - PROTECTED_S
        for done in range(most):
            if not self._reducible:
                self._first_s = -1
                return done
            self._first_s = self._begun(self._reducible[0])
            if self._first_s > last:
                return done
            key = self._reducible.popleft()
            self._first_s = -1
            self._forget_answer(key, network_of(key))
        return most

    def _begun(self, key: int) -> int:
        """Second of the request; NONE when it is forgotten."""
        page = self.pages.get(key >> SLOT_BITS)
        at = message_ids.find(page, key & (SLOTS - 1)) if page is not None else message_ids.NONE
        return message_ids.second_of(page, at) if page is not None and at >= 0 else message_ids.NONE

    def _free(self, network: int, second: int) -> bool:
        """Make room for a request of the network. False: there is nothing more to remove."""
        for _ in range(FREED_MAX):
            if not self._short(network):
                return True
            if self._reducible:
                self._reduce()
            elif not self._drop(second - PROTECTED_S, 1):
                return False
        return False

    def _short(self, network: int) -> bool:
        """True when there is no room for another request of the network."""
        if self.bytes < self._crowded_bytes:
            return False
        return self.bytes >= self.bytes_max or self.networks.get(network, 0) >= self._share_bytes

    def _reduce(self) -> None:
        """Remove the oldest removable response."""
        key = self._reducible.popleft()
        self._first_s = -1
        if key in self.answers:
            self.reduced += 1
            self._forget_answer(key, network_of(key))

    def _drop(self, last: int, most: int) -> int:
        """Remove pages without an entry after the second `last`. Handles at most `most` pages; returns their number."""
        handled = 0
        while handled < most and self._oldest <= last and self.pages:
            names = self._queued.get(self._oldest)
            if not names:
                self._queued.pop(self._oldest, None)
                self._oldest += 1
                continue
            name = names.pop()
            handled += 1
            newest = message_ids.newest(self.pages[name])
            if newest > self._oldest:
                self._queue(name, newest)
            else:
                self._remove(name)
        return handled

    def _remove(self, name: int) -> None:
        page = self.pages.pop(name)
        self._asked = -1
        first = name << SLOT_BITS | page[0]
        network = network_of(first)
        early = self._second - self.lifetime_s
        for at in range(message_ids.HEAD_BYTES, len(page), message_ids.STRIDE):
            if page[at]:
                self._forget_answer(first + (at - message_ids.HEAD_BYTES) // message_ids.STRIDE, network)
                if message_ids.second_of(page, at) > early:
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
        if network != self._last:
            self._count_last()
            self._last = network
        self._more += more

    def _count_last(self) -> None:
        if self._more:
            mine = self._counted.get(self._last, 0) + self._more
            self._more = 0
            if mine:
                self._counted[self._last] = mine
            else:
                del self._counted[self._last]

    @property
    def networks(self) -> dict[int, int]:
        """Network -> memory of its pages and responses."""
        self._count_last()
        return self._counted


def network_of(key: int) -> int:
    """Network of a remote's key: its IPv4 address (also one mapped to IPv6), or the first 64 bits of its IPv6 address."""
    address = key >> KEY_PORT_BITS
    if address >> 32 == 0 or address >> 32 == MAPPED:
        return address & 0xFFFFFFFF
    return address >> 64
