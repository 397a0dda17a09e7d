"""Token buckets. The state of a bucket is one number: the time at which it is full again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar, final

from domain.limits import SECOND_NS

Key = TypeVar("Key", bound=Hashable)


@final
class RateLimit:
    """`per_s` units for each second, and up to `burst_s` seconds' worth of them at once. Both are at least 1."""

    __slots__ = ("burst_ns", "per_s")

    def __init__(self, per_s: int, burst_s: int) -> None:
        self.per_s = per_s
        self.burst_ns = burst_s * SECOND_NS

    def cost_ns(self, units: int) -> int:
        """Time in nanoseconds in which `units` are refilled."""
        return units * SECOND_NS // self.per_s


@final
class Bucket:
    """One token bucket. Taking more than it has leaves a debt, which must be refilled before anything can be taken again.

    So a batch of any size is checked once, and the average rate still holds.
    """

    __slots__ = ("_full_at", "_rate")

    def __init__(self, rate: RateLimit) -> None:
        self._rate = rate
        self._full_at = 0

    def wait_ns(self, now: int) -> int:
        """Nanoseconds until something may be taken; 0: at once."""
        return max(0, max(self._full_at, now) + self._rate.cost_ns(1) - now - self._rate.burst_ns)

    def take(self, units: int, now: int) -> None:
        """Take `units`, into debt if the bucket has fewer."""
        self._full_at = max(self._full_at, now) + self._rate.cost_ns(units)


@final
class Buckets(Generic[Key]):
    """Buckets of one rate by key. Keeps at most `keys_max` and drops the least recently used."""

    __slots__ = ("_buckets", "_keys_max", "_rate")

    def __init__(self, rate: RateLimit, keys_max: int) -> None:
        self._rate: Final = rate
        self._keys_max: Final = keys_max
        self._buckets: dict[Key, Bucket] = {}

    def of(self, key: Key) -> Bucket:
        """The bucket of `key`; a full one when it is new, or was dropped."""
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
