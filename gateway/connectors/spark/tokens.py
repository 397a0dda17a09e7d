"""Stored properties (`key U+0001 value U+0002` repeated, domain.property) of many records, split with numpy."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
_NAMES_MAX: Final = 48
"""Distinct keys for which a 64-bit sum of powers of two cannot overflow: a record has fewer than 2^14 pieces."""


@final
class PropertyTokens:
    """The properties of many records: start, separator and end of each, and the record it is in.

    rows  number of records
    """

    def __init__(self, properties: pa.Array) -> None:
        """`properties`: a binary array without nulls and with array offset 0; a row has the properties of one record."""
        self.rows = len(properties)
        _, edges, data = properties.buffers() if self.rows else (None, None, None)
        bounds = np.frombuffer(edges, np.int32)[: self.rows + 1].astype(np.int64) if edges else np.zeros(1, np.int64)
        self._buffer = data if data is not None else pa.py_buffer(b"")
        self._bytes = np.frombuffer(self._buffer, np.uint8)[: bounds[-1]]
        self._bounds = bounds
        separators = np.flatnonzero(self._bytes == 2)
        name_ends = np.flatnonzero(self._bytes == 1)
        # A piece ends at a separator or at the end of its record. At equal positions, the end of the record is sorted first.
        order = np.argsort(np.concatenate((separators * 2 + 1, bounds[1:] * 2)), kind="stable")
        ends = np.concatenate((separators, bounds[1:]))[order]
        by_separator = np.concatenate((np.ones(len(separators), bool), np.zeros(self.rows, bool)))[order]
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + by_separator[:-1]
        rows = np.cumsum(~by_separator) - ~by_separator
        at = np.searchsorted(name_ends, starts)
        split = np.where(at < len(name_ends), np.append(name_ends, 0)[np.minimum(at, len(name_ends))], len(self._bytes))
        named = split < ends
        self._starts, self._split, self._ends, self._row = starts[named], split[named], ends[named], rows[named]

    def values(self, key: bytes) -> pa.Array:
        """The value of `key` in each record, as `domain.property.find` finds it; null when it is absent or empty."""
        fits = np.flatnonzero(self._split - self._starts == len(key))
        window = self._bytes[self._starts[fits][:, None] + np.arange(len(key))]
        fits = fits[(window == np.frombuffer(key, np.uint8)).all(axis=1)]
        rows, first = np.unique(self._row[fits], return_index=True)
        fits = fits[first]
        starts = self._bounds[:-1].copy()
        ends = starts.copy()
        starts[rows] = self._split[fits] + 1
        ends[rows] = self._ends[fits]
        return spans(self._buffer, starts, ends, starts == ends)

    def pairs(self) -> tuple[pa.Array, pa.Array, pa.Array] | None:
        """(row offsets, keys, values) of all properties; None when a record has a key twice: only the last one counts."""
        whole = (self._split > self._starts) & (self._split + 1 < self._ends)
        starts, split, ends, row = self._starts[whole], self._split[whole], self._ends[whole], self._row[whole]
        keys = spans(self._buffer, starts, split)
        values = spans(self._buffer, split + 1, ends)
        offsets = np.searchsorted(row, np.arange(self.rows + 1))
        if len(row) and _has_duplicate_keys(keys, row):
            return None
        return pa.array(offsets, pa.int32()), keys, values


def spans(buffer: pa.Buffer, starts: Numbers, ends: Numbers, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The ranges [start, end) of a buffer, ascending and disjoint, copied into a binary array; null where `missing`."""
    if len(starts) == 0:
        return pa.array([], pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    fields_and_gaps = pa.BinaryArray.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), buffer])
    return fields_and_gaps.take(pa.array(np.arange(0, len(edges), 2), mask=missing))


def _has_duplicate_keys(keys: pa.Array, row: Numbers) -> bool:
    """True when a record has a key more than once."""
    coded = keys.dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    if len(coded.dictionary) > _NAMES_MAX:
        return len(np.unique(row * len(coded.dictionary) + codes)) != len(row)
    # The sum of distinct powers of two equals their bitwise or; with a duplicate, the sum differs.
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    bits = np.left_shift(np.int64(1), codes)
    return bool((np.add.reduceat(bits, first) != np.bitwise_or.reduceat(bits, first)).any())
