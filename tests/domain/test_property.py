"""Properties in their stored form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import property as properties

words = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=100)
@given(st.dictionaries(words, words, max_size=6))
def test_what_is_encoded_is_decoded_and_found(pairs: dict[str, str]) -> None:
    stored = properties.encode(pairs.items())
    assert properties.decode(stored) == pairs
    for key, value in pairs.items():
        assert properties.text(stored, key) == value
        assert properties.text(stored[:-1], key) == value, "older clients omit the last separator"
    assert properties.find(stored, properties.start_of("absent ")) == b""


@settings(max_examples=100)
@given(st.dictionaries(words, words, max_size=6), st.dictionaries(words, words, max_size=3))
def test_setting_values_replaces_and_keeps(pairs: dict[str, str], changes: dict[str, str]) -> None:
    stored = properties.encode(pairs.items())
    assert properties.decode(properties.with_values(stored, changes)) == {**pairs, **changes}
    assert properties.decode(properties.without(stored, changes)) == {k: v for k, v in pairs.items() if k not in changes}


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_any_bytes_decode(stored: bytes) -> None:
    for key in properties.decode(stored):
        assert key != ""
    properties.user(stored)


def test_a_key_is_not_found_inside_another_key() -> None:
    assert properties.find(b"MY_TAGS\x01x\x02TAGS\x01y\x02", properties.TAGS_START) == b"y"
    assert properties.find(b"MY_TAGS\x01x\x02", properties.TAGS_START) == b""


@pytest.mark.parametrize("pair", [("", "v"), ("k", ""), ("k\x01", "v"), ("k", "v\x02")])
def test_what_cannot_be_stored_is_refused(pair: tuple[str, str]) -> None:
    assert not properties.is_storable(*pair)
    with pytest.raises(ValueError, match="cannot be stored"):
        properties.encode([pair])


def test_user_properties_leave_out_every_reserved_name() -> None:
    stored = properties.encode(
        [("colour", "red"), ("UNIQ_KEY", "1"), ("HG_CLIENT", "c"), ("traceparent", "00-1"), ("CE_type", "t"), ("POP_CK", "x")]
    )
    assert properties.user(stored) == {"colour": "red", "traceparent": "00-1", "CE_type": "t"}


PIECES = (b"KEYS", b"HG_X", b"CE_id", b"mine", b"\xff", b"__RMQ.TRANSIENT.a", b"\x01", b"\x02", b"v")


@given(st.lists(st.sampled_from(PIECES)))
def test_user_properties_of_any_bytes_are_the_decoded_ones_that_are_not_reserved(pieces: list[bytes]) -> None:
    stored = b"".join(pieces)
    expected = {key: value for key, value in properties.decode(stored).items() if not properties.is_reserved(key)}
    assert list(properties.user(stored).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("pairs", "kind"),
    [
        ([], "NORMAL"),
        ([("__SHARDINGKEY", "g")], "FIFO"),
        ([("__SHARDINGKEY", "g"), ("TIMER_DELIVER_MS", "1")], "DELAY"),
        ([("DELAY", "3"), ("TRAN_MSG", "true")], "TRANSACTION"),
        ([("MY_DELAY", "3")], "NORMAL"),
    ],
)
def test_the_type_of_a_message_follows_from_its_properties(pairs: list[tuple[str, str]], kind: str) -> None:
    assert properties.message_type(properties.encode(pairs)) == kind


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=4))
def test_a_test_for_an_entry_misses_none(stored: bytes, start: bytes) -> None:
    assert properties.has(stored, start) == any(stored[at : at + len(start)] == start for at in range(len(stored)))
    assert properties.has(stored + start, start)


@pytest.mark.parametrize(
    "name", [properties.DELAY, properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS, properties.TIMER_DELIVER_MS]
)
def test_every_property_that_delays_is_looked_for(name: str) -> None:
    stored = properties.encode([("KEYS", "a"), (name, "1")])
    assert properties.may_have_delay(stored)
    assert properties.has_delay(stored)
    assert not properties.has_delay(properties.encode([("KEYS", name)]))
    assert not properties.may_have_delay(properties.encode([("KEYS", "a"), ("TAGS", "b")]))
