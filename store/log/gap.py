"""Gaps: places of the log where records were lost."""

from __future__ import annotations

from typing import NamedTuple

from store.log.batch import Header


class Gap(NamedTuple):
    """A place of the log where records were lost.

    begin     position of its first byte
    end       position after its last byte, where a segment begins
    records   how many records were lost at most
    ms        when the batch before it was written, in epoch ms
    """

    begin: int
    end: int
    records: int
    ms: int


def gap_size(found: Header | None) -> int:
    """Bytes of the gap that a header stands for; 0 for another header or none."""
    return found.size if found is not None and found.is_gap else 0
