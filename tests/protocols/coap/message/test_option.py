"""Options of a request: what each one sets, and which faults refuse the request (RFC 7252, 5.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.coap.message import message, option

PAIRS = st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=10)), max_size=8).map(sorted)
CRITICAL_UNKNOWN = 13
ELECTIVE_UNKNOWN = 10


def read(*pairs: tuple[int, bytes]) -> option.Options:
    return option.read(list(pairs), b"")


def fault_of(*pairs: tuple[int, bytes]) -> int:
    """The response code that refuses the request, 0 for none."""
    fault = read(*pairs).fault
    return 0 if fault is None else fault.code


def test_an_absent_option_is_told_from_one_with_the_value_0() -> None:
    none = read()
    zero = read((option.OBSERVE, b""), (option.CONTENT_FORMAT, b"\x00"), (option.BLOCK2, b""))
    assert (none.observe, none.content_format, none.block2, none.accept) == (option.ABSENT,) * 4
    assert (zero.observe, zero.content_format, zero.block2, zero.accept) == (0, 0, 0, option.ABSENT)


def test_options_keep_their_values_and_their_order() -> None:
    found = read(
        (option.IF_MATCH, b""), (option.IF_MATCH, b"v"), (option.ETAG, b"e"), (option.IF_NONE_MATCH, b""),
        (option.OBSERVE, b"\x01"), (option.URI_PATH, b"a"), (option.URI_PATH, b""), (option.URI_PATH, "\u00e9".encode()),
        (option.CONTENT_FORMAT, b"\x27\x10"), (option.URI_QUERY, b"x=1"), (option.ACCEPT, b"\x32"), (option.BLOCK2, b"\x16"),
        (option.BLOCK1, b"\x01\x02\x03"), (option.SIZE1, b"\x01\x00"), (option.ECHO, b"12"), (option.NO_RESPONSE, b"\x1a"),
        (option.REQUEST_TAG, b"r"),
    )  # fmt: skip
    assert found.fault is None
    assert (found.if_match, found.if_none_match, found.etags, found.observe) == ([b"", b"v"], True, [b"e"], 1)
    assert (found.path, found.query, found.content_format, found.accept) == (["a", "", "\u00e9"], ["x=1"], 10_000, 50)
    assert (found.block1, found.block2, found.size1, found.echo) == (0x010203, 0x16, 256, b"12")
    assert (found.no_response, found.request_tag) == (26, [b"r"])


def test_a_critical_option_that_is_not_known_refuses_and_an_elective_one_is_ignored() -> None:  # 7252-5.4.1
    assert fault_of((CRITICAL_UNKNOWN, b"")) == message.BAD_OPTION
    assert read((ELECTIVE_UNKNOWN, b"x"), (option.URI_PATH, b"a")).path == ["a"]


@pytest.mark.parametrize(
    ("number", "least", "most"),
    [
        (option.URI_HOST, 1, 255), (option.IF_MATCH, 0, 8), (option.URI_PATH, 0, 255), (option.ACCEPT, 0, 2),
        (option.BLOCK2, 0, 3), (option.BLOCK1, 0, 3), (option.IF_NONE_MATCH, 0, 0), (option.URI_PORT, 0, 2),
    ],
)  # fmt: skip
def test_a_length_out_of_range_makes_a_critical_option_unknown(number: int, least: int, most: int) -> None:  # 7252-5.4.3
    assert fault_of((number, b"1" * least)) == fault_of((number, b"1" * most)) == 0
    assert fault_of((number, b"1" * (most + 1))) == message.BAD_OPTION
    if least:
        assert fault_of((number, b"1" * (least - 1))) == message.BAD_OPTION


def test_a_repeated_option_that_is_not_repeatable_counts_as_unknown() -> None:  # 7252-5.4.5
    assert fault_of((option.BLOCK1, b"\x01"), (option.BLOCK1, b"\x01")) == message.BAD_OPTION
    assert read((option.CONTENT_FORMAT, b"\x01"), (option.CONTENT_FORMAT, b"\x02")).content_format == 1
    assert fault_of((option.URI_QUERY, b"a"), (option.URI_QUERY, b"a")) == 0


@pytest.mark.parametrize("number", [option.PROXY_URI, option.PROXY_SCHEME])
def test_a_request_for_a_proxy_is_refused(number: int) -> None:  # 7252-5.10.2
    assert fault_of((number, b"coap")) == message.PROXYING_NOT_SUPPORTED


@pytest.mark.parametrize("number", [option.URI_PATH, option.URI_QUERY, option.URI_HOST])
def test_text_that_is_not_utf_8_is_refused(number: int) -> None:
    assert fault_of((number, b"\xff")) == message.BAD_REQUEST


def test_a_request_that_may_go_no_further_is_refused() -> None:  # 8768-3
    assert fault_of((option.HOP_LIMIT, b"\x00")) == message.BAD_REQUEST
    assert fault_of((option.HOP_LIMIT, b"\x01")) == 0


@pytest.mark.parametrize("number", [option.BLOCK1, option.BLOCK2, option.ECHO, option.IF_MATCH, option.ETAG])
def test_options_of_one_request_alone_are_not_shared(number: int) -> None:
    assert read((option.URI_PATH, b"a"), (option.OBSERVE, b"")).plain
    assert not read((number, b"1")).plain


@given(PAIRS)
def test_no_options_raise_and_reading_survives_the_wire(pairs: list[tuple[int, bytes]]) -> None:
    raw = message.join(pairs)
    split = message.split(raw, 0)
    assert split is not None
    first, second = option.read(pairs, raw), option.read(split[0], raw)
    assert (first.path, first.query, first.block1, first.plain) == (second.path, second.query, second.block1, second.plain)
    assert (first.fault is None) == (second.fault is None)
