"""The content of a request as a JSON object with known members."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from domain.errors import ErrorCode
from protocols.http.problem import refuse
from protocols.http.request import Request


def members(request: Request, known: Collection[str], example: str) -> dict[str, Any]:
    """The members. Raises RefusalError: the content is no JSON object, or a member is unknown. `example`: for the text."""
    try:
        found = orjson.loads(request.body) if request.body else {}
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"the content is a JSON object: {example}")
    for name in found:
        if name not in known:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"member {name} is unknown; there are {', '.join(known)}", member=name)
    return found


def text(found: dict[str, Any], name: str, otherwise: str | None = None) -> str:
    """A member that is a text; `otherwise` when it is absent, None: it is required. Raises RefusalError."""
    value = found.get(name, otherwise)
    if not isinstance(value, str):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is a text", member=name)
    return value


def whole(found: dict[str, Any], name: str, least: int, most: int, otherwise: int) -> int:
    """A member that is a whole number. Raises RefusalError."""
    value = found.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is a whole number from {least} to {most}", member=name)
    return value


def flag(found: dict[str, Any], name: str, otherwise: bool) -> bool:
    """A member that is true or false. Raises RefusalError."""
    value = found.get(name, otherwise)
    if not isinstance(value, bool):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is true or false", member=name)
    return value


def texts(found: dict[str, Any], name: str) -> list[str]:
    """A member that is an array of texts; absent: an empty one. Raises RefusalError."""
    value = found.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is an array of texts", member=name)
    return value


def octets(found: dict[str, Any], name: str, otherwise: bytes | None = None) -> bytes:
    """A member that is bytes in hexadecimal digits. `otherwise`: as for `text`. Raises RefusalError, without the value."""
    value = text(found, name, None if otherwise is None else otherwise.hex())
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is bytes in hexadecimal digits", member=name) from None
