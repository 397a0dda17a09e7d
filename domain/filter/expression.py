"""Filter expressions of both types, compiled once."""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.filter import sql, tag
from domain.filter.filter import Filter

TAG: Final = "TAG"
SQL92: Final = "SQL92"
KEPT_MAX: Final = 1_024
KEPT_CHARS_MAX: Final = 1_024


@final
class Expressions:
    """Compiled filters by type and text, as consumers repeat them in every request. Keeps KEPT_MAX and drops the oldest."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Filter | Failure | None] = {}

    def compile(self, kind: str, text: str) -> Filter | Failure | None:
        """The filter of an expression of type TAG (also "") or SQL92; None: every message matches. Failure: FILTER_ILLEGAL."""
        key = (kind, text)
        kept = self._kept
        if key in kept:
            return kept[key]
        found = compiled(kind, text)
        if len(text) <= KEPT_CHARS_MAX:
            if len(kept) >= KEPT_MAX:
                del kept[next(iter(kept))]
            kept[key] = found
        return found


def compiled(kind: str, text: str) -> Filter | Failure | None:
    """As `Expressions.compile`, without keeping the filter."""
    if kind in ("", TAG):
        return tag.parse(text)
    if kind == SQL92:
        return sql.parse(text)
    return Failure(ErrorCode.FILTER_ILLEGAL, f"filters are of type {TAG} or {SQL92}, not {kind[:40]!a}")
