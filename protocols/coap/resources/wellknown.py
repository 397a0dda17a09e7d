"""`/.well-known/core`: the resources in link format (RFC 6690, RFC 7252 section 7)."""

from __future__ import annotations

from typing import Final

from domain.limits import BODY_BYTES_MAX

PATH: Final = [".well-known", "core"]

# target, attributes in order; a list is written as one quoted string of words
_LINKS: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    (
        "/mq",
        (
            ("rt", "headgate.mq"), ("if", "core.b"), ("ct", "0 40 42 50 60"), ("title", "/mq/{topic}"), ("obs", ""),
            ("sz", str(BODY_BYTES_MAX)),
        ),
    ),
    ("/ps", (("rt", "core.ps core.ps.coll"), ("ct", "40"))),
    ("/.well-known/core", (("ct", "40"),)),
)  # fmt: skip
"""The links of `/.well-known/core`. `sz`: size of the largest value (RFC 6690, 3.3); smaller clients request blocks."""


def links(query: list[str]) -> bytes:
    """Link list, filtered by `name=value` queries (RFC 6690 section 4.1); a value that ends in `*` matches a prefix."""
    kept = [
        _text(target, attributes) for target, attributes in _LINKS if all(_matches(target, attributes, text) for text in query)
    ]
    return ",".join(kept).encode()


def _matches(target: str, attributes: tuple[tuple[str, str], ...], text: str) -> bool:
    name, _, wanted = text.partition("=")
    if name == "href":
        return _fits(target, wanted)
    for key, value in attributes:
        if key == name:
            return any(_fits(word, wanted) for word in (value.split() if name in ("rt", "if", "ct") else [value]))
    return False


def _fits(value: str, wanted: str) -> bool:
    return value.startswith(wanted[:-1]) if wanted.endswith("*") else value == wanted


def _text(target: str, attributes: tuple[tuple[str, str], ...]) -> str:
    parts = [f"<{target}>"]
    for key, value in attributes:
        if key in ("ct", "sz") and value.isdigit():
            parts.append(f"{key}={value}")
        else:
            parts.append(f'{key}="{value}"' if value else key)
    return ";".join(parts)
