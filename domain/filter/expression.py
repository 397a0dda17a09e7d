"""Filter expressions of both types, compiled once."""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.filter import sql, tag
from domain.filter.filter import SQL92, TAG, Filter

KEPT_MAX: Final = 1_024
KEPT_CHARS_MAX: Final = 256 * 1_024
"""Characters of all expressions that are kept: a filter takes some fifty bytes for each."""


@final
class Expressions:
    """Compiled filters by type and text, as consumers repeat them in every request, whichever consumer that is.

    Keeps KEPT_MAX of them, with KEPT_CHARS_MAX characters in all, and drops the oldest.
    """

    __slots__ = ("_chars", "_kept")

    def __init__(self) -> None:
        self._chars = 0
        self._kept: dict[tuple[str, str], Filter | Failure | None] = {}

    def compile(self, kind: str, text: str) -> Filter | Failure | None:
        """The filter of an expression of type TAG (also "") or SQL92; None: every message matches. Failure: FILTER_ILLEGAL."""
        key = (kind, text)
        kept = self._kept
        if key in kept:
            return kept[key]
        found = compiled(kind, text)
        if len(text) > sql.EXPRESSION_CHARS_MAX:
            return found
        kept[key] = found
        self._chars += len(text)
        while len(kept) > KEPT_MAX or self._chars > KEPT_CHARS_MAX:
            oldest = next(iter(kept))
            del kept[oldest]
            self._chars -= len(oldest[1])
        return found


def compiled(kind: str, text: str) -> Filter | Failure | None:
    """As `Expressions.compile`, without keeping the filter."""
    if kind in ("", TAG):
        return tag.parse(text)
    if kind == SQL92:
        return sql.parse(text)
    return Failure(ErrorCode.FILTER_ILLEGAL, f"filters are of type {TAG} or {SQL92}, not {kind[:40]!a}")
