"""Reads up to a damaged record: the records before it are answered, and the next reader gets the error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.errors import StoreError
from store.queue.row import Row


def readable(
    fetch: Callable[[Sequence[Row]], list[bytes]], rows: Sequence[Row]
) -> tuple[list[bytes], OSError | StoreError | None]:
    """(records of `rows` up to the first unreadable one, its error; None when all were read)."""
    try:
        return fetch(rows), None
    except (OSError, StoreError):
        found: list[bytes] = []
    for row in rows:
        try:
            found += fetch((row,))
        except (OSError, StoreError) as error:
            return found, error
    return found, None
