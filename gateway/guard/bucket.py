"""Token buckets, each of which is one number: the time at which it would be full again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar, final

from domain.limits import SECOND_NS

Key = TypeVar("Key", bound=Hashable)


@final
class RateLimit:
    """`per_s` units a second, and `burst_s` seconds' worth of them at once. Both at least 1."""

    __slots__ = ("burst_ns", "per_s")

    def __init__(self, per_s: int, burst_s: int) -> None:
        self.per_s = per_s
        self.burst_ns = burst_s * SECOND_NS

    def cost_ns(self, units: int) -> int:
        """The time that `units` take to come back."""
        return units * SECOND_NS // self.per_s


@final
class Bucket:
    """One payer. What is taken may exceed what is there: the debt is waited for before anything is taken again.

    So a batch is one question, however large, and the rate holds over time all the same.
    """

    __slots__ = ("_full_at", "_rate")

    def __init__(self, rate: RateLimit) -> None:
        self._rate = rate
        self._full_at = 0

    def wait_ns(self, now: int) -> int:
        """How long until something may be taken; 0: at once."""
        return max(0, max(self._full_at, now) + self._rate.cost_ns(1) - now - self._rate.burst_ns)

    def take(self, units: int, now: int) -> None:
        """Take `units`, into debt where there are not as many."""
        self._full_at = max(self._full_at, now) + self._rate.cost_ns(units)


@final
class Buckets(Generic[Key]):
    """Buckets of one rate by key, at most `keys_max`: the one that was asked for the longest time ago is forgotten first."""

    __slots__ = ("_buckets", "_keys_max", "_rate")

    def __init__(self, rate: RateLimit, keys_max: int) -> None:
        self._rate: Final = rate
        self._keys_max: Final = keys_max
        self._buckets: dict[Key, Bucket] = {}

    def of(self, key: Key) -> Bucket:
        """The bucket of `key`."""
        buckets = self._buckets
        bucket = buckets.pop(key, None)
        if bucket is None:
            bucket = Bucket(self._rate)
            if len(buckets) >= self._keys_max:
                del buckets[next(iter(buckets))]
        buckets[key] = bucket
        return bucket

    def __len__(self) -> int:
        return len(self._buckets)
