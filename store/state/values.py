"""The values of a space by key. One dictionary of a million would be copied in one turn when it grows: of 64, only one is."""

from __future__ import annotations

from typing import Final, final

_PARTS: Final = 64
"""A power of two."""


@final
class StateValues:
    """Key -> value, or the row of a long value (rows.py); and where the newest record of a value is.

    _values    the values, by the hash of their keys
    _anchors   key of a value in memory -> base of the segment that holds its newest record
    """

    def __init__(self) -> None:
        self._values: list[dict[bytes, bytes | int]] = [{} for _ in range(_PARTS)]
        self._anchors: list[dict[bytes, int]] = [{} for _ in range(_PARTS)]

    def __len__(self) -> int:
        return sum([len(part) for part in self._values])

    def __contains__(self, key: bytes) -> bool:
        return key in self._values[hash(key) & (_PARTS - 1)]

    def get(self, key: bytes) -> bytes | int | None:
        """The value of `key`, or its row; None when it has none."""
        return self._values[hash(key) & (_PARTS - 1)].get(key)

    def anchor(self, key: bytes) -> int:
        """The base of the segment with the newest record of `key`, whose value is in memory."""
        return self._anchors[hash(key) & (_PARTS - 1)][key]

    def put(self, key: bytes, value: bytes | int, base: int) -> None:
        """Set `key` to a value, or to a row, whose newest record is in the segment at `base`."""
        at = hash(key) & (_PARTS - 1)
        self._values[at][key] = value
        if isinstance(value, int):
            self._anchors[at].pop(key, None)
        else:
            self._anchors[at][key] = base

    def remove(self, key: bytes) -> None:
        """Remove `key`, which has a value or a row."""
        at = hash(key) & (_PARTS - 1)
        del self._values[at][key]
        self._anchors[at].pop(key, None)
