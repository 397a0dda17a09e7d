"""Parameters of requests: names of topics and groups, bounded numbers, filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain import address
from domain.errors import ErrorCode, Failure
from domain.filter.filter import SQL92, TAG, Filter
from domain.message.once import digest
from protocols.http.handler import Match
from protocols.http.path import query
from protocols.http.problem import refuse
from protocols.http.request import Request

IDEMPOTENCY_KEY_BYTES_MAX: Final = 256
_KEY_WORDS: Final = f"1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters, without a quotation mark"
KEY_MEMBER: Final = "idempotencyKey"
"""The key of a record of an upload."""


def topic(match: Match) -> str:
    """The `{topic}` of a route. Raises RefusalError when it is no valid topic name."""
    name = match.names["topic"]
    if not address.is_topic(name):
        raise refuse(ErrorCode.TOPIC_ILLEGAL, "a topic is named with 1 to 127 of A-Z a-z 0-9 _ - % |")
    return name


def group(match: Match) -> str:
    """The `{group}` of a route. Raises RefusalError when it is no valid group name."""
    name = match.names["group"]
    if not address.is_group(name):
        raise refuse(ErrorCode.GROUP_ILLEGAL, "a group is named with 1 to 120 of A-Z a-z 0-9 _ - % |")
    return name


def parameters(match: Match, *known: str) -> dict[str, str]:
    """The query of a request. Raises RefusalError for a parameter not in `known`, so that misspelt ones are not ignored."""
    found = query(match.query)
    for name in found:
        if name not in known:
            options = f"this path knows {', '.join(known)}" if known else "this path knows none"
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"parameter {name} is unknown; {options}", parameter=name)
    return found


def filter_of(match: Match, asked: Mapping[str, str]) -> Filter | None:
    """The filter of `tag` (`A || B`) or of `filter` (SQL92), None without one. Raises RefusalError."""
    if "filter" not in asked:
        found = match.context.expressions.compile(TAG, asked.get("tag", "*"))
    elif "tag" in asked:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "tag or filter, not both; a filter can say TAGS = 'A'", parameter="filter")
    else:
        found = match.context.expressions.compile(SQL92, asked["filter"])
    if isinstance(found, Failure):
        raise refuse(found.code, found.text, parameter="filter")
    return found


def number(name: str, text: str | None, least: int, most: int, otherwise: int) -> int:
    """A decimal number from `least` to `most`; `otherwise` when the parameter is absent. Raises RefusalError."""
    if text is None:
        return otherwise
    if text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most:
        return int(text)
    raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is a whole number from {least} to {most}", parameter=name)


def flag(name: str, text: str | None) -> bool:
    """`true` or `false`; False when the parameter is absent. Raises RefusalError."""
    if text is None or text == "false":
        return False
    if text == "true":
        return True
    raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is true or false", parameter=name)


def is_idempotency_key(key: bytes) -> bool:
    """True for 1 to IDEMPOTENCY_KEY_BYTES_MAX printable ASCII characters without a quotation mark."""
    return 0 < len(key) <= IDEMPOTENCY_KEY_BYTES_MAX and b'"' not in key and all(32 <= byte < 127 for byte in key)


def record_key(item: object, path: str, record: bytes) -> tuple[bytes, bytes] | None:
    """Take the key of one record of an upload out of its members; None: it has none. Raises RefusalError.

    item     the decoded record; KEY_MEMBER is removed, when it is there
    path     path of the upload; the digest of the key is of path and record
    record   the record as it was sent
    """
    if not isinstance(item, dict) or KEY_MEMBER not in item:
        return None
    found = item.pop(KEY_MEMBER)
    key = found.encode("utf-8", "surrogatepass") if isinstance(found, str) else b""
    if not is_idempotency_key(key):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{KEY_MEMBER} is a string of {_KEY_WORDS}", member=KEY_MEMBER)
    return key, digest(path.encode(), record.strip())


def idempotency(request: Request) -> tuple[bytes, bytes] | None:
    """The Idempotency-Key of a request with the digest of the request; None without one. Raises RefusalError.

    The value is a string of RFC 9651 (`"8e03978e"`), as in draft-ietf-httpapi-idempotency-key-header, or the same bare.
    """
    if not request.has(b"idempotency-key"):
        return None
    key = request.field(b"idempotency-key").strip()
    if len(key) >= 2 and key[:1] == key[-1:] == b'"':
        key = key[1:-1]
    if not is_idempotency_key(key):
        detail = f"Idempotency-Key is a string of {_KEY_WORDS}"
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, detail, field="idempotency-key")
    target = request.target
    if b"access_token=" in target:  # a sender may have got a new token before it repeats a request
        path, _, asked = target.partition(b"?")
        target = path + b"?" + b"&".join(pair for pair in asked.split(b"&") if not pair.startswith(b"access_token="))
    return key, digest(target, request.body)
