"""Values of CESQL, their casts and their errors (CESQL 1.0, sections 3.1, 3.3 and 3.7)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, final

INTEGER_MIN: Final = -(1 << 31)
INTEGER_MAX: Final = (1 << 31) - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS_MAX: Final = 4_096


class CesqlFault(StrEnum):
    """Kinds of errors that come with a value."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION = "functionEvaluation"


@final
class CesqlMissing:
    """The value of an attribute that the event does not have; one object, MISSING."""


MISSING: Final = CesqlMissing()
Known = str | int | bool
Value = Known | CesqlMissing
Kind = type[str] | type[int] | type[bool]


def kind_of(value: Known) -> Kind:
    """The primitive type of a value: str, int or bool."""
    return bool if isinstance(value, bool) else int if isinstance(value, int) else str


def zero(kind: Kind) -> Known:
    """The zero value of a type."""
    return kind()


def to_text(value: Known) -> str:
    """Cast to String; never fails."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def to_integer(value: Known, faults: list[CesqlFault]) -> int:
    """Cast to Integer; 0 with CAST for text that is no integer of 32 bits."""
    if isinstance(value, int):
        return int(value)
    if len(value) <= _DIGITS_MAX and _INTEGER.fullmatch(value) is not None:
        found = int(value)
        if INTEGER_MIN <= found <= INTEGER_MAX:
            return found
    faults.append(CesqlFault.CAST)
    return 0


def to_boolean(value: Known, faults: list[CesqlFault]) -> bool:
    """Cast to Boolean; False with CAST for text other than `true` and `false`, in any case."""
    if isinstance(value, int):
        return bool(value)
    low = value.lower()
    if low not in ("true", "false"):
        faults.append(CesqlFault.CAST)
    return low == "true"


def cast(value: Known, kind: Kind, faults: list[CesqlFault]) -> Known:
    """Cast to a type."""
    if kind is str:
        return to_text(value)
    return to_boolean(value, faults) if kind is bool else to_integer(value, faults)


def bounded(value: int, faults: list[CesqlFault]) -> int:
    """An Integer of 32 bits; what is beyond becomes the nearest one, with MATH."""
    if INTEGER_MIN <= value <= INTEGER_MAX:
        return value
    faults.append(CesqlFault.MATH)
    return INTEGER_MAX if value > 0 else INTEGER_MIN
