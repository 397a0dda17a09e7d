"""Pauses between attempts to connect, which become longer while attempts fail."""

from __future__ import annotations

from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Entropy

_DOUBLINGS_MAX: Final = 10


@final
class Backoff:
    """The first pause is `first_ms` on average; each further one is twice as long, `longest_ms` at most. Each varies by half.

    failures     pauses since the last success
    longest_ms   bound of the average
    """

    def __init__(self, first_ms: int, longest_ms: int, entropy: Entropy) -> None:
        self.failures = 0
        self._first_ms = first_ms
        self.longest_ms = longest_ms
        self._entropy = entropy

    def next_ns(self, least_ms: int = 0) -> int:
        """Count a failure. Returns the pause before the next attempt in nanoseconds, of `least_ms` or more on average."""
        pause_ms = max(min(self.longest_ms, self._first_ms << min(self.failures, _DOUBLINGS_MAX)), least_ms)
        self.failures += 1
        return int(pause_ms * (0.5 + self._entropy.random()) * MILLISECOND_NS)

    def reset(self) -> None:
        """An attempt has succeeded."""
        self.failures = 0
