"""Request targets: raw path segments, levels, the query. One segment is one level of a path (RFC 3986, 3.3 and 3.4)."""

from __future__ import annotations

import re

from domain import address
from domain.errors import ErrorCode
from protocols.http.problem import refuse
from protocols.request_line import absolute

_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")


def split(target: bytes) -> tuple[list[bytes], bytes]:
    """Request target (origin-form, or absolute-form without its authority) -> raw segments and raw query.

    Raises RefusalError for other forms, and for a fragment.
    """
    if target[:1] != b"/":
        found = absolute(target)
        if found is None:
            raise refuse(
                ErrorCode.ARGUMENT_ILLEGAL, "a request target is a path from / on, or an http URL with a host and no user"
            )
        target = found[1]
    if b"#" in target:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "a request target has no fragment")
    path, _, query = target.partition(b"?")
    return path[1:].split(b"/"), query


def decode(raw: bytes) -> str:
    """Percent-decode once, into text. Raises RefusalError for a malformed escape and for invalid UTF-8."""
    if b"%" in raw:
        raw = _ESCAPE.sub(_unescape, raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "the request target is not valid UTF-8") from None


def _unescape(found: re.Match[bytes]) -> bytes:
    digits = found.group(1)
    if digits is None:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "a percent sign is not followed by two hexadecimal digits")
    return bytes((int(digits, 16),))


def level(raw: bytes) -> str:
    """One raw segment -> one level. Raises RefusalError for `/`, `+`, `#` or U+0000 in it, and for `.` and `..`."""
    text = decode(raw)
    if text in (".", "..") or any(sign in text for sign in "/+#\x00"):
        raise refuse(ErrorCode.TOPIC_ILLEGAL, "a level of a path is not . or .., and holds no /, +, # or U+0000")
    return text


def destination(raw: list[bytes]) -> tuple[str, str]:
    """Raw segments of a path -> (domain topic, its `originMqttTopic`; "" when the path equals the topic).

    Raises RefusalError for a path that is no MQTT topic name, and for paths of the node (`$SYS`).
    """
    path = "/".join([level(segment) for segment in raw])
    if not address.is_path(path):
        raise refuse(ErrorCode.TOPIC_ILLEGAL, "a path has 1 to 4,096 bytes and at most 128 levels")
    if path == "$SYS" or path.startswith("$SYS/"):
        raise refuse(ErrorCode.NOT_ALLOWED, "$SYS belongs to the node")
    topic = address.topic_of_path(path)
    return topic, "" if topic == path else path


def query(raw: bytes) -> dict[str, str]:
    """`a=1&b=x%20y` -> a dictionary. `+` is a plus sign, not a space.

    Raises RefusalError for a repeated name, a malformed escape and invalid UTF-8.
    """
    found: dict[str, str] = {}
    if not raw:
        return found
    for pair in raw.split(b"&"):
        if pair:
            name, _, value = pair.partition(b"=")
            key = decode(name)
            if key in found:
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"parameter {key} is given twice", parameter=key)
            found[key] = decode(value)
    return found
