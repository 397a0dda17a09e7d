"""Rows of the key index: which keys a message has, and that a key always gets the same hash."""

from __future__ import annotations

import zlib
from array import array

from hypothesis import given
from hypothesis import strategies as st

from store.keys import row

TOKEN = st.text(st.characters(exclude_characters=" \x01\x02", codec="utf-8"), min_size=1, max_size=8)


def stored(**properties: str) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_hash_is_that_of_topic_nul_and_key(topic: str, key: str) -> None:
    assert row.hash_of(key, row.seed_of(topic)) == zlib.crc32(f"{topic}\x00{key}".encode())


@given(st.lists(TOKEN, min_size=1, max_size=10))
def test_each_key_is_found_once_in_the_order_given(keys: list[str]) -> None:
    found = row.tokens_of(stored(TAGS="t", KEYS=" ".join(keys), X="y"))
    assert [token.decode() for token in found] == list(dict.fromkeys(keys))


def test_blanks_between_keys_are_no_keys() -> None:
    assert row.tokens_of(stored(KEYS="  a   b ")) == [b"a", b"b"]


def test_only_the_property_named_keys_is_read() -> None:
    assert row.tokens_of(stored(XKEYS="a", TAGS="KEYS", Y="b")) == []
    assert row.tokens_of(stored(XKEYS="a", KEYS="b")) == [b"b"]
    assert row.tokens_of(b"") == []


def test_the_last_property_may_lack_its_end() -> None:
    assert row.tokens_of(b"TAGS\x01t\x02KEYS\x01a b") == [b"a", b"b"]


def test_a_message_has_a_bounded_number_of_keys() -> None:
    keys = [f"k{number}" for number in range(row.KEYS_PER_MESSAGE_MAX + 10)]
    assert [token.decode() for token in row.tokens_of(stored(KEYS=" ".join(keys)))] == keys[: row.KEYS_PER_MESSAGE_MAX]


def test_keys_that_are_no_utf_8_are_found_as_readers_see_them() -> None:
    assert row.tokens_of(b"KEYS\x01a\xff b\x02") == ["a\ufffd".encode(), b"b"]
    assert row.id_of(b"UNIQ_KEY\x01\xff\x02") == "\ufffd".encode()


def test_the_id_of_a_message_is_its_uniq_key() -> None:
    assert row.id_of(stored(KEYS="a", UNIQ_KEY="AB01")) == b"AB01"
    assert row.id_of(stored(KEYS="UNIQ_KEY")) == b""


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20))
def test_rows_are_little_endian_in_the_file(numbers: list[int]) -> None:
    rows = array("Q", numbers)
    data = row.pack(rows)
    assert data == b"".join(number.to_bytes(row.ROW_BYTES, "little") for number in numbers)
    assert row.unpack(data) == rows
    assert rows == array("Q", numbers)
