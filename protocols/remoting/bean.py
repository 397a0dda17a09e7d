"""Reading the beans in request bodies: JSON of unknown quality into values of known type."""

from __future__ import annotations

from typing import Final

from protocols.remoting import codes, fastjson
from protocols.remoting.ticket import RequestError

ITEMS_MAX: Final = 65_536
"""Elements of one list in a body."""

Bean = dict[str, object]


def read(body: bytes) -> Bean:
    """A body -> its top-level object. Raises RequestError."""
    try:
        found = fastjson.loads(body)
    except fastjson.DialectError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(codes.INVALID_PARAMETER, "the body is not a JSON object")
    return found


def text(bean: Bean, name: str, absent: str = "") -> str:
    """A string; numbers and enums by ordinal come as their text."""
    value = bean.get(name)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else absent


def number(bean: Bean, name: str, absent: int = 0) -> int:
    """An integer of 64 bits, also when it is quoted."""
    value = bean.get(name)
    if isinstance(value, str) and value.lstrip("-").isdigit() and value.isascii() and len(value) <= 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    return absent


def flag(bean: Bean, name: str, absent: bool = False) -> bool:
    """true or false."""
    value = bean.get(name)
    return value if isinstance(value, bool) else absent


def beans(bean: Bean, name: str) -> list[Bean]:
    """A list of objects; what is not an object in it is skipped. Raises RequestError when it is too long."""
    return [each for each in _items(bean, name) if isinstance(each, dict)]


def texts(bean: Bean, name: str) -> list[str]:
    """A list of strings; what is not a string in it is skipped."""
    return [each for each in _items(bean, name) if isinstance(each, str)]


def table(bean: Bean, name: str) -> Bean:
    """An object, empty when absent."""
    value = bean.get(name)
    return value if isinstance(value, dict) else {}


def _items(bean: Bean, name: str) -> list[object]:
    value = bean.get(name)
    if not isinstance(value, list):
        return []
    if len(value) > ITEMS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{name} has {len(value)} elements, {ITEMS_MAX} are allowed")
    return value
