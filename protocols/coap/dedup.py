"""The duplicate table: a request that arrives twice is executed once and answered with the same bytes
(RFC 7252, sections 4.2 and 4.5).

One entry is a number, a reference in a queue and the response: about 200 bytes. Times of arrival are kept per second, not per
entry. A peer cannot have more than 65,536 entries, because a message id has 16 bits.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

SECOND_NS: Final = 1_000_000_000
EXCHANGE_LIFETIME_S: Final = 247
NON_LIFETIME_S: Final = 145
PROTECTED_S: Final = 45


@final
class Answers:
    """The encoded responses to recent requests, by key (remote and message id).

    Invariant: `order` has the keys of `answers` in order of arrival, and the counts in `seconds` add up to its length.

    answers       key -> encoded response; b"" while the request is in execution
    order         keys, oldest first
    seconds       how many of the keys came in each second, oldest first
    bytes         bytes of all responses
    bytes_max     the most that `bytes` can be
    entries_max   the most entries
    lifetime_s    age at which an entry is removed
    protected_s   age below which an entry is never evicted
    evicted       entries that were removed before `lifetime_s` to make room
    """

    __slots__ = (
        "answers", "bytes", "bytes_max", "entries_max", "evicted", "lifetime_s", "order", "protected_s", "seconds",
    )  # fmt: skip

    def __init__(self, lifetime_s: int, entries_max: int, bytes_max: int, protected_s: int = PROTECTED_S) -> None:
        self.lifetime_s = lifetime_s
        self.entries_max = entries_max
        self.bytes_max = bytes_max
        self.protected_s = protected_s
        self.answers: dict[int, bytes] = {}
        self.order: deque[int] = deque()
        self.seconds: deque[list[int]] = deque()
        self.bytes = 0
        self.evicted = 0

    def begin(self, key: int, now: int) -> bool:
        """Add a request before it is executed, with b"" as its response until `settle`. False: no room, do not execute it.

        `key` must not be in the table.
        """
        second = now // SECOND_NS
        seconds = self.seconds
        if not seconds or seconds[-1][0] != second:
            self.expire(now)
            seconds.append([second, 0])
        if len(self.order) >= self.entries_max or self.bytes >= self.bytes_max:
            if seconds[0][0] + self.protected_s > second:
                if not seconds[-1][1]:
                    seconds.pop()
                return False
            self._drop_oldest()
            self.evicted += 1
        self.answers[key] = b""
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
        """Remove entries older than `lifetime_s`."""
        oldest = now // SECOND_NS - self.lifetime_s
        while self.seconds and self.seconds[0][0] <= oldest:
            for _ in range(self.seconds[0][1]):
                self.bytes -= len(self.answers.pop(self.order.popleft()))
            self.seconds.popleft()

    def _drop_oldest(self) -> None:
        self.bytes -= len(self.answers.pop(self.order.popleft()))
        first = self.seconds[0]
        first[1] -= 1
        if not first[1]:
            self.seconds.popleft()
