"""Stored properties (`key U+0001 value U+0002` repeated, domain.message.property) of many records, split with numpy."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
_SEPARATOR: Final = b"\x02"
_NAMES_MAX: Final = 48
"""Distinct keys for which a 64-bit sum of powers of two cannot overflow: a record has fewer than 2^14 pieces."""


@final
class PropertyTokens:
    """The properties of many records: start, separator and end of each, and the record it is in."""

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
        """The value of `key` in each record, as `domain.message.property.find` finds it; null when it is absent or empty."""
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

    def pairs(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(row offsets, keys, values) of all properties. Of equal keys in a record, the first place has the last value."""
        whole = (self._split > self._starts) & (self._split + 1 < self._ends)
        starts, split, ends, row = self._starts[whole], self._split[whole], self._ends[whole], self._row[whole]
        keys = text(spans(self._buffer, starts, split))
        if len(row):
            first, last = _without_duplicates(keys, row)
            if first is not None:
                keys, row = keys.take(pa.array(first)), row[first]
                split, ends = split[last], ends[last]
        if len(split) > 1 and (split[1:] < split[:-1]).any():
            order = np.argsort(split, kind="stable")
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            values = text(spans(self._buffer, split[order] + 1, ends[order])).take(pa.array(back))
        else:
            values = text(spans(self._buffer, split + 1, ends))
        return pa.array(np.searchsorted(row, np.arange(self.rows + 1)), pa.int32()), keys, values


def spans(buffer: pa.Buffer, starts: Numbers, ends: Numbers, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The ranges [start, end) of a buffer, ascending and disjoint, copied into a binary array; null where `missing`."""
    if len(starts) == 0:
        return pa.array([], pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    fields_and_gaps = pa.BinaryArray.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), buffer])
    return fields_and_gaps.take(pa.array(np.arange(0, len(edges), 2), mask=missing))


def text(array: pa.Array) -> pa.Array:
    """Binary values without U+0002 -> strings; bytes that are not UTF-8 become U+FFFD, as in Python's `replace`."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    # Decode all at once: U+0002 between the values ends a sequence that is cut short, as the end of the value does.
    dense = array.fill_null(b"")
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(dense)], dense), _SEPARATOR)[0].as_py()
    data = joined.decode("utf-8", "replace").encode()
    edges = np.concatenate(([-1], np.flatnonzero(np.frombuffer(data, np.uint8) == _SEPARATOR[0]), [len(data)]))
    missing = array.is_null().to_numpy(zero_copy_only=False)
    return spans(pa.py_buffer(data), edges[:-1] + 1, edges[1:], missing).cast(pa.string())


def _without_duplicates(keys: pa.Array, row: Numbers) -> tuple[Numbers, Numbers] | tuple[None, None]:
    """(first, last) property of each key of each record, in order of the first; None when no key is there twice."""
    coded = keys.dictionary_encode()
    names = len(coded.dictionary)
    codes = coded.indices.to_numpy().astype(np.int64)
    if names <= _NAMES_MAX:
        # The sum of distinct powers of two equals their bitwise or; with a duplicate, the sum differs.
        start = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
        bits = np.left_shift(np.int64(1), codes)
        if (np.add.reduceat(bits, start) == np.bitwise_or.reduceat(bits, start)).all():
            return None, None
    marks = row * names + codes
    order = np.argsort(marks, kind="stable")
    marks = marks[order]
    change = np.append(True, marks[1:] != marks[:-1])
    if change.all():
        return None, None
    first = order[change]
    last = order[np.append(np.flatnonzero(change)[1:], len(marks)) - 1]
    back = np.argsort(first, kind="stable")
    return first[back], last[back]
