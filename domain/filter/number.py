"""Property values as numbers, by Java's rules (Long.valueOf, Double.valueOf without NaN, Infinity and hexadecimal)."""

from __future__ import annotations

import re
from typing import Final

WHOLE_MAX: Final = 0x7FFFFFFFFFFFFFFF

_WHOLE = re.compile(rb"([+-]?)0*([0-9]{1,19})")
_REAL = re.compile(rb"[\x00-\x20]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?[\x00-\x20]*")


def whole(text: bytes) -> int | None:
    """A whole number of 64 bits, None when `text` is none."""
    if len(text) <= 18 and text.isdigit():
        return int(text)
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    value = int(found.group(2))
    if found.group(1) == b"-":
        return -value if value <= WHOLE_MAX + 1 else None
    return value if value <= WHOLE_MAX else None


def real(text: bytes) -> float | None:
    """A floating-point number, None when `text` is none."""
    found = _REAL.fullmatch(text)
    return None if found is None else float(found.group(1))
