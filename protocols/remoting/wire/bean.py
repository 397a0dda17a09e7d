"""Reading JSON request bodies (Java beans): the values of an object by type."""

from __future__ import annotations

from typing import Final

from protocols.remoting import codes
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import fastjson

ITEMS_MAX: Final = 2_048
"""Elements of one list in a body: all are handled in one turn of the loop, some fifteen calls for each."""

Bean = dict[str, object]


def read(body: bytes) -> Bean:
    """A body -> its JSON object. Raises RequestError with code 29 when the body is not a JSON object."""
    try:
        found = fastjson.loads(body)
    except fastjson.DialectError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError(codes.INVALID_PARAMETER, "the body is not a JSON object")
    return found


def text(bean: Bean, name: str, absent: str = "") -> str:
    """A string; an integer (also the ordinal of an enum) becomes decimal text. `absent` for any other type."""
    value = bean.get(name)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else absent


def number(bean: Bean, name: str, absent: int = 0) -> int:
    """A signed integer of 64 bits, or a string with one. `absent` for anything else."""
    value = bean.get(name)
    if isinstance(value, str) and value.lstrip("-").isdigit() and value.isascii() and len(value) <= 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    return absent


def whole(bean: Bean, name: str, absent: int, least: int = -(1 << 31), most: int = (1 << 31) - 1) -> int:
    """A whole number that is stored as it was sent: `absent` when the member is missing or null.

    Raises RequestError, with code 29, for one outside `least` to `most`, and for anything that is no number.
    """
    value = bean.get(name)
    if value is None:
        return absent
    found = number(bean, name, most + 1)
    if not least <= found <= most:
        raise RequestError(
            codes.INVALID_PARAMETER, f"{name} is {str(value)[:40]}: a whole number from {least} to {most} is wanted"
        )
    return found


def decided(bean: Bean, name: str, absent: bool = False) -> bool:
    """A boolean that is stored as it was sent: `absent` when the member is missing or null. Raises RequestError as `whole`."""
    value = bean.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(codes.INVALID_PARAMETER, f"{name} is {str(value)[:40]}: true or false is wanted")
    return absent if value is None else value


def flag(bean: Bean, name: str, absent: bool = False) -> bool:
    """A boolean; `absent` for any other type."""
    value = bean.get(name)
    return value if isinstance(value, bool) else absent


def beans(bean: Bean, name: str) -> list[Bean]:
    """The objects of a list; other elements are skipped. Raises RequestError for more than ITEMS_MAX elements."""
    return [each for each in _items(bean, name) if isinstance(each, dict)]


def texts(bean: Bean, name: str) -> list[str]:
    """The strings of a list; other elements are skipped. Raises RequestError for more than ITEMS_MAX elements."""
    return [each for each in _items(bean, name) if isinstance(each, str)]


def numbers(bean: Bean, name: str) -> list[int]:
    """The signed integers of 64 bits in a list; other elements are skipped. RequestError as `texts`."""
    found = _items(bean, name)
    return [each for each in found if isinstance(each, int) and not isinstance(each, bool) and -(1 << 63) <= each < 1 << 63]


def table(bean: Bean, name: str) -> Bean:
    """An object; an empty one when the value is absent or of another type."""
    value = bean.get(name)
    return value if isinstance(value, dict) else {}


def _items(bean: Bean, name: str) -> list[object]:
    value = bean.get(name)
    if not isinstance(value, list):
        return []
    if len(value) > ITEMS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{name} has {len(value)} elements, {ITEMS_MAX} are allowed")
    return value
