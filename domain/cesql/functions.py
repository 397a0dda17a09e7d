"""Functions that are built in (CESQL 1.0, section 3.5, and the casts INT, BOOL and STRING of its test kit)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.cesql.term import CesqlFunction
from domain.cesql.value import CesqlFault, Known, bounded

TEXT_CHARS_MAX: Final = 1024 * 1024
"""A longer result of CONCAT is cut, with an error."""


def _joined(between: str, parts: list[Known], faults: list[CesqlFault]) -> str:
    size = sum(len(str(part)) for part in parts) + len(between) * max(0, len(parts) - 1)
    if size > TEXT_CHARS_MAX:
        faults.append(CesqlFault.FUNCTION)
        return ""
    return between.join(str(part) for part in parts)


def _concat(given: list[Known], faults: list[CesqlFault]) -> Known:
    return _joined("", given, faults)


def _concat_ws(given: list[Known], faults: list[CesqlFault]) -> Known:
    return _joined(str(given[0]), given[1:], faults)


def _left(given: list[Known], faults: list[CesqlFault]) -> Known:
    text, count = str(given[0]), int(given[1])
    if count < 0:
        faults.append(CesqlFault.FUNCTION)
        return text
    return text[:count]


def _right(given: list[Known], faults: list[CesqlFault]) -> Known:
    text, count = str(given[0]), int(given[1])
    if count < 0:
        faults.append(CesqlFault.FUNCTION)
        return text
    return text[max(0, len(text) - count) :]


def _substring(given: list[Known], faults: list[CesqlFault]) -> Known:
    """`pos` counts from 1, or from the end when it is negative; 0 gives the empty string."""
    text, pos = str(given[0]), int(given[1])
    length = int(given[2]) if len(given) > 2 else len(text)
    if pos > len(text) or pos < -len(text) or length < 0:
        faults.append(CesqlFault.FUNCTION)
        return ""
    if pos == 0:
        return ""
    begin = pos - 1 if pos > 0 else len(text) + pos
    return text[begin : begin + length]


def _abs(given: list[Known], faults: list[CesqlFault]) -> Known:
    return bounded(abs(int(given[0])), faults)


def _same(given: list[Known], faults: list[CesqlFault]) -> Known:
    return given[0]


FUNCTIONS: Final[Mapping[str, tuple[CesqlFunction, ...]]] = {
    "ABS": (CesqlFunction(int, (int,), _abs),),
    "BOOL": (CesqlFunction(bool, (bool,), _same),),
    "CONCAT": (CesqlFunction(str, (), _concat, str),),
    "CONCAT_WS": (CesqlFunction(str, (str,), _concat_ws, str),),
    "INT": (CesqlFunction(int, (int,), _same),),
    "LEFT": (CesqlFunction(str, (str, int), _left),),
    "LENGTH": (CesqlFunction(int, (str,), lambda given, _: len(str(given[0]))),),
    "LOWER": (CesqlFunction(str, (str,), lambda given, _: str(given[0]).lower()),),
    "RIGHT": (CesqlFunction(str, (str, int), _right),),
    "STRING": (CesqlFunction(str, (str,), _same),),
    "SUBSTRING": (CesqlFunction(str, (str, int), _substring), CesqlFunction(str, (str, int, int), _substring)),
    "TRIM": (CesqlFunction(str, (str,), lambda given, _: str(given[0]).strip()),),
    "UPPER": (CesqlFunction(str, (str,), lambda given, _: str(given[0]).upper()),),
}


def find(name: str, arguments: int) -> CesqlFunction | None:
    """The function of a name, in any case, with `arguments` arguments; None: there is none."""
    for function in FUNCTIONS.get(name.upper(), ()):
        least = len(function.parameters)
        if arguments == least or (arguments > least and function.more is not None):
            return function
    return None
