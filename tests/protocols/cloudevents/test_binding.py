"""The HTTP protocol binding 1.0.2: content modes, header values, binary mode."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents import event
from protocols.cloudevents import http as binding
from protocols.cloudevents.event import KNOWN_BYTES_MAX, KNOWN_MAX, CloudEvent, CloudEventError

HEADERS = [(b"ce-specversion", b"1.0"), (b"ce-id", b"1"), (b"ce-source", b"/s"), (b"ce-type", b"t")]


@pytest.mark.parametrize(
    ("content_type", "mode"),
    [
        (b"", binding.BINARY),
        (b"application/json", binding.BINARY),
        (b"application/cloudevents+json", binding.STRUCTURED),
        (b"Application/CloudEvents+JSON; charset=UTF-8", binding.STRUCTURED),
        (b'application/cloudevents+json;charset="utf-8"', binding.STRUCTURED),
        (b"application/cloudevents-batch+json", binding.BATCH),
        (b"application/cloudevents+protobuf", binding.STRUCTURED_PROTOBUF),
        (b"application/cloudevents-batch+protobuf", binding.BATCH_PROTOBUF),
        (b"application/cloudevents+avro", binding.STRUCTURED_AVRO),
    ],
)
def test_content_type_alone_chooses_the_mode(content_type: bytes, mode: int) -> None:
    """Section 3: the prefix of Content-Type, in any case."""
    assert binding.mode(content_type) == mode


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents",
        b"application/cloudevents+xml",
        b"application/cloudevents-batch+avro",
        b"application/cloudevents-batch",
        b"application/cloudeventsx",
        b"application/cloudevents-batch+xml",
        b"application/cloudevents+json; charset=utf-16",
    ],
)
def test_formats_not_spoken_are_told_apart_from_bad_events(content_type: bytes) -> None:
    with pytest.raises(CloudEventError) as caught:
        binding.mode(content_type)
    assert caught.value.unsupported


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"plain", "plain"),
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (b"%e2%82%ac", "€"),
        (b"%41%42", "AB"),
        (b"%2525", "%25"),
        (b'"quoted \\"x\\" %41"', 'quoted "x" A'),
        (b'half"quoted', 'half"quoted'),
        ("direct é".encode(), "direct é"),
        (b"with space", "with space"),
    ],
)
def test_header_values_are_decoded_exactly_once(raw: bytes, value: str) -> None:
    """Section 3.1.3.2: quoted string first, then one round of percent-decoding."""
    assert binding.header_value(b"subject", raw) == value.encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"%C0%A0", b"%FF", b"\xff", b"%", b"100%", b"%4", b"%zz", b"%ED%A0%80", b"%00", b"%7F", b"%C2%85", b"\0",
        b"a\x1fb", b"\x7f", b"\x80",
    ],
)  # fmt: skip
def test_header_values_that_are_no_text_are_refused(raw: bytes) -> None:
    with pytest.raises(CloudEventError):
        binding.header_value(b"subject", raw)


def test_the_body_is_the_data_and_content_type_its_type() -> None:
    event = binding.decode([*HEADERS, (b"x-other", b"y")], b"application/json", b"{ }")
    assert event.data == b"{ }"
    assert event.is_json
    assert event.attributes[b"datacontenttype"] == b"application/json"
    assert set(event.attributes) == {b"specversion", b"id", b"source", b"type", b"datacontenttype"}


@pytest.mark.parametrize(
    ("more", "attribute"),
    [
        ((b"ce-datacontenttype", b"text/plain"), "datacontenttype"),
        ((b"ce-id", b"2"), "id"),
        ((b"ce-", b"x"), ""),
        ((b"ce-a_b", b"x"), "a_b"),
        ((b"ce-data", b"x"), "data"),
        ((b"ce-subject", b"%zz"), "subject"),
        ((b"ce-time", b"now"), "time"),
    ],
)
def test_bad_headers_are_refused_by_name(more: tuple[bytes, bytes], attribute: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        binding.decode([*HEADERS, more], b"", b"")
    assert caught.value.attribute == attribute


@pytest.mark.parametrize("left_out", range(4))
def test_a_missing_attribute_is_named(left_out: int) -> None:
    headers = [*HEADERS]
    name = headers.pop(left_out)[0]
    with pytest.raises(CloudEventError) as caught:
        binding.decode(headers, b"", b"")
    assert caught.value.attribute == name[3:].decode()


def test_values_are_judged_the_same_when_they_come_again() -> None:
    sources = [b"/s/%d" % number for number in range(2 * KNOWN_MAX)]
    for source in [*sources, *sources[:10]]:
        assert binding.decode(_from(source), b"text/x-%d" % len(source), b"").attributes[b"source"] == source
    for _ in range(2):
        for source, content_type, attribute in (
            (b"/s/1 ", b"", "source"), (b"/s/%2", b"", "source"), (b"/s", b"text", "datacontenttype"),
            (b"/s", b'a/b;c="\1"', "datacontenttype"),
        ):  # fmt: skip
            with pytest.raises(CloudEventError) as caught:
                binding.decode(_from(source), content_type, b"")
            assert caught.value.attribute == attribute
    assert [binding.decode(HEADERS, kind, b"").is_json for kind in (b"text/json", b"text/plain") * 2] == [True, False] * 2


def test_valid_values_are_remembered_within_bounds() -> None:
    for number in range(2 * KNOWN_MAX):
        binding.decode(_from(b"/many/%d" % number), b"many/x%d" % number, b"")
    binding.decode(_from(b"/" + b"l" * KNOWN_BYTES_MAX), b"long/" + b"l" * KNOWN_BYTES_MAX, b"")
    for known in (event._sources, event._media_types):
        assert 0 < len(known) <= KNOWN_MAX
        assert max(map(len, known)) <= KNOWN_BYTES_MAX


def _from(source: bytes) -> list[tuple[bytes, bytes]]:
    return [(name, source if name == b"ce-source" else value) for name, value in HEADERS]


def test_values_go_out_escaped() -> None:
    """Section 3.1.3.2: space, double quote, percent and all outside U+0021 to U+007E, in upper-case hexadecimal."""
    event = CloudEvent({b"subject": 'a "b" 100% é'.encode()}, b"", False)
    assert binding.encode(event) == [(b"ce-subject", b"a%20%22b%22%20100%25%20%C3%A9")]


TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)


@settings(max_examples=100)
@given(TEXT, TEXT, st.binary(max_size=32))
def test_binary_mode_round_trip(identity: str, subject: str, data: bytes) -> None:
    event = CloudEvent(
        {b"specversion": b"1.0", b"id": identity.encode(), b"source": b"/s", b"type": b"t", b"subject": subject.encode()},
        data,
        False,
    )
    again = binding.decode(binding.encode(event), b"", event.data)
    assert (again.attributes, again.data) == (event.attributes, event.data)


def test_a_request_without_fields_of_an_event_is_told_both_ways() -> None:
    """Its sender may have meant the structured mode."""
    with pytest.raises(
        CloudEventError, match="give ce- fields, or the whole event with Content-Type application/cloudevents"
    ) as e:
        binding.decode([], b"application/json", b'{"specversion":"1.0"}')
    assert e.value.attribute == "specversion"
