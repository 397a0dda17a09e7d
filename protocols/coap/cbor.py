"""The maps of text that FETCH bodies are (RFC 8949): definite lengths, text keys and text values."""

from __future__ import annotations

from typing import Final

PAIRS_MAX: Final = 16
_TEXT: Final = 3
_MAP: Final = 5


def text_map(data: bytes) -> dict[str, str] | None:
    """Decode one map of at most PAIRS_MAX texts to texts. None for anything else, and for a repeated key or bytes behind it."""
    head = _head(data, 0)
    if head is None or head[0] != _MAP or head[1] > PAIRS_MAX:
        return None
    found: dict[str, str] = {}
    at = head[2]
    for _ in range(head[1]):
        texts: list[str] = []
        for _ in range(2):
            head = _head(data, at)
            if head is None or head[0] != _TEXT or head[2] + head[1] > len(data):
                return None
            at = head[2] + head[1]
            try:
                texts.append(data[head[2] : at].decode())
            except UnicodeDecodeError:
                return None
        if texts[0] in found:
            return None
        found[texts[0]] = texts[1]
    return found if at == len(data) else None


def _head(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Major type, argument, and where the head of the item at `at` ends. None: it is cut, or its length is indefinite."""
    if at >= len(data):
        return None
    major, low = data[at] >> 5, data[at] & 31
    if low < 24:
        return major, low, at + 1
    if low > 27:
        return None
    end = at + 1 + (1 << (low - 24))
    return (major, int.from_bytes(data[at + 1 : end], "big"), end) if end <= len(data) else None
