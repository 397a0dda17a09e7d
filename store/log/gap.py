"""Gaps: places of the log where records were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.log.batch import Header


class Gap(NamedTuple):
    """A place of the log where records were lost.

    end       position after its last byte, where a segment begins
    records   how many records were lost at most
    ms        when the batch before it was written, in epoch ms
    """

    begin: int
    end: int
    records: int
    ms: int


def is_lost(gaps: Sequence[Gap], position: int) -> bool:
    """True when `position` is in one of `gaps`: its record was lost."""
    return any(found.begin <= position < found.end for found in gaps)


def lost_records(gaps: Sequence[Gap]) -> int:
    """Upper bound of the records lost in `gaps`: their offsets must not be used again."""
    return sum(found.records for found in gaps)


def gap_size(found: Header | None) -> int:
    """Bytes of the gap that a header stands for; 0 for another header or none."""
    return found.size if found is not None and found.is_gap else 0
