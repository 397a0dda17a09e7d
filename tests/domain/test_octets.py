"""Integers within bytes: what `int.from_bytes` reads there, and an error where the bytes end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.octets import uint16, uint32, uint64

READERS: dict[int, Callable[[bytes, int], int]] = {2: uint16, 4: uint32, 8: uint64}


@given(st.sampled_from([*READERS]), st.binary(max_size=12), st.data())
def test_an_integer_is_read_at_its_place(size: int, before: bytes, pick: st.DataObject) -> None:
    expected = pick.draw(st.integers(0, (1 << 8 * size) - 1) | st.sampled_from((0, (1 << 8 * size) - 1, 1 << 8 * size - 1)))
    data = before + expected.to_bytes(size, "big") + pick.draw(st.binary(max_size=9))
    assert READERS[size](data, len(before)) == expected


@pytest.mark.parametrize("size", [*READERS])
def test_bytes_that_end_too_early_are_an_error(size: int) -> None:
    for length in range(size):
        with pytest.raises(IndexError):
            READERS[size](bytes(length), 0)
