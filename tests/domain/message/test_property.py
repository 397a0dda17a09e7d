"""Properties in their stored form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import limits
from domain.message import property as properties

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


@settings(max_examples=60)
@given(st.dictionaries(words, words, max_size=4), st.dictionaries(words, words, max_size=3), st.integers(0, 60), st.booleans())
def test_marks_are_set_as_far_as_there_is_room(pairs: dict[str, str], marks: dict[str, str], room: int, ended: bool) -> None:
    most = limits.PROPERTIES_BYTES_MAX
    stored = properties.encode(pairs.items())
    stored += properties.entry("filler", "x" * (most - len(stored) - 8 - room))
    stored = stored if ended else stored[:-1]
    out = properties.with_room(stored, marks)
    found = properties.decode(out)
    assert len(out) <= most
    kept = {key: value for key, value in properties.decode(stored).items() if key not in marks}
    assert {key: value for key, value in found.items() if key not in marks} == kept, "what the client has sent is kept"
    there = [key for key in marks if found.get(key) == marks[key]]
    assert there == list(marks)[: len(there)], "the first ones go before the others"


@settings(max_examples=60)
@given(st.dictionaries(words, words, max_size=6), st.integers(0, 200))
def test_what_a_client_cannot_read_is_cut_at_the_end_of_an_entry(pairs: dict[str, str], most: int) -> None:
    stored = properties.encode([*pairs.items(), ("1ST_POP_TIME", "1")])
    out = properties.cut(stored, most)
    assert len(out) <= most
    assert out == stored if len(stored) <= most else properties.encode(pairs.items()).startswith(out)
    assert not out or out.endswith(b"\x02")


def test_marks_of_adapters_and_of_access_control_are_not_the_clients() -> None:
    own = properties.encode([("a", "b"), ("HG_CLIENT", "c"), ("originMqttTopic", "t/x")])
    marks = properties.encode([("HG_PROTOCOL", "mqtt"), ("HG_PRINCIPAL", "alice"), ("MSG_REGION", "DefaultRegion")])
    assert properties.client_bytes(own + marks) == properties.client_bytes(own) == len(own)
    large = properties.encode([("MSG_REGION", "r" * 65)])
    assert properties.client_bytes(large) == len(large)
