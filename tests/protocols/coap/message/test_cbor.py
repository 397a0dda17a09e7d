"""CBOR items: the examples of RFC 8949, what is refused, and any bytes."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.coap.message import cbor
from protocols.coap.message.cbor import CborError, Tagged

# RFC 8949, appendix A
VECTORS: list[tuple[Any, str]] = [
    (0, "00"), (23, "17"), (24, "1818"), (1000, "1903e8"), (1_000_000, "1a000f4240"), (1_000_000_000_000, "1b000000e8d4a51000"),
    (-1, "20"), (-1000, "3903e7"), (1.1, "fb3ff199999999999a"), (False, "f4"), (True, "f5"), (None, "f6"),
    (Tagged(1, 1_363_896_240), "c11a514b67b0"), (b"", "40"), (b"\x01\x02\x03\x04", "4401020304"), ("", "60"),
    ("\u00fc", "62c3bc"), ([], "80"), ([1, [2, 3], [4, 5]], "8301820203820405"),
    ({}, "a0"), ({1: 2, 3: 4}, "a201020304"), ({"a": 1, "b": [2, 3]}, "a26161016162820203"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_vectors_of_the_rfc(value: Any, text: str) -> None:
    assert cbor.encode(value).hex() == text
    assert cbor.decode(bytes.fromhex(text)) == value


@pytest.mark.parametrize(("text", "value"), [("f93c00", 1.0), ("fa47c35000", 100_000.0), ("f97c00", math.inf)])
def test_shorter_floats_are_read(text: str, value: float) -> None:
    assert cbor.decode(bytes.fromhex(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "18", "61", "5f42010243030405ff", "9fff", "bfff", "0000", "a10000ff", "a201020103", "a1a000", "62fffe",
        "f8ff", "f7", "ff", "1c", "9b7fffffffffffffff", "bb7fffffffffffffff", "81" * 20 + "00", "c1" * 20 + "00",
        "9901f4" + "00" * 500, "5b7fffffffffffffff",
    ],
)  # fmt: skip
def test_other_bytes_are_refused(text: str) -> None:
    with pytest.raises(CborError):
        cbor.decode(bytes.fromhex(text))


LEAVES = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.binary(max_size=30) | st.text(max_size=30)
KEYS = st.integers(0, 1 << 40) | st.text(max_size=5)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Items, and items that have such items in them."""
    tagged = st.builds(Tagged, st.integers(0, 1 << 40), inner)
    return inner | st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | tagged


ITEMS = around(around(LEAVES))


@given(ITEMS)
def test_what_is_encoded_is_decoded(item: Any) -> None:
    assert cbor.decode(cbor.encode(item)) == item


@given(st.binary(max_size=80))
def test_no_input_raises_anything_else(data: bytes) -> None:
    with contextlib.suppress(CborError):
        cbor.decode(data)
    found = cbor.text_map(data)
    assert found is None or all(isinstance(each, str) for pair in found.items() for each in pair)
