"""Flapping detection: clients that connect too often are refused for some time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar, final

Key = TypeVar("Key", bound=Hashable)


@final
class FlappingDetector(Generic[Key]):
    """Refuses a key for `hold_ns` after more than `connects` connects within `window_ns` of the first of them.

    Connects in between do not prolong the time. Keeps at most `keys_max` keys and drops the least recently used.

    began   True when the last `connect` was the one with which its key began to be refused
    """

    __slots__ = ("_connects", "_hold_ns", "_keys_max", "_seen", "_window_ns", "began")

    def __init__(self, connects: int, window_ns: int, hold_ns: int, keys_max: int) -> None:
        self._connects = connects
        self._window_ns = window_ns
        self._hold_ns = hold_ns
        self._keys_max = keys_max
        self.began = False
        self._seen: dict[Key, tuple[int, int, int]] = {}

    def connect(self, key: Key, now: int) -> int:
        """Count a connect. Returns the nanoseconds for which the key is still refused; 0: admitted."""
        self.began = False
        began, count, held_until = self._seen.pop(key, (now, 0, 0))
        if held_until <= now:
            if held_until or now - began > self._window_ns:
                began, count, held_until = now, 0, 0
            count += 1
            if count > self._connects:
                held_until = now + self._hold_ns
                self.began = True
        if len(self._seen) >= self._keys_max:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (began, count, held_until)
        return max(0, held_until - now)

    def held(self, now: int) -> int:
        """Number of keys that are refused now."""
        return sum(held_until > now for _, _, held_until in self._seen.values())

    def __len__(self) -> int:
        return len(self._seen)
