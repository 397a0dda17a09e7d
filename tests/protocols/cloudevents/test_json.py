"""The JSON event format 1.0.2: accepted and refused events; data is kept byte for byte."""

from __future__ import annotations

import base64
import binascii
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.cloudevents import json as envelope
from protocols.cloudevents.event import ATTRIBUTES_MAX, CloudEvent, CloudEventError

HEAD = '"specversion":"1.0","id":"1","source":"/s","type":"t"'


def decode(more: str) -> CloudEvent:
    """An event with the required attributes and `more` members."""
    return envelope.decode(f"{{{HEAD}{more}}}".encode())


@pytest.mark.parametrize(
    ("more", "data"),
    [
        ("", b""),
        (',"data":{"b": 1,  "a":[1,2]}', b'{"b": 1,  "a":[1,2]}'),
        (',"data":"text"', b'"text"'),
        (',"data":1.50', b"1.50"),
        (',"data":null', b"null"),
        (',"data" : [ "}" , "\\"" ] ', b'[ "}" , "\\"" ]'),
        (',"datacontenttype":"application/vnd.a+json","data":{"x":1}', b'{"x":1}'),
        (',"datacontenttype":"text/json; charset=utf-8","data":[]', b"[]"),
        (',"datacontenttype":"text/plain","data":"a\\u00e9\\n"', "aé\n".encode()),
        (',"datacontenttype":"text/plain","data":null', b""),
        (',"data_base64":"AAEC"', b"\x00\x01\x02"),
        (',"data_base64":null,"data":7', b"7"),
    ],
)
def test_data_stays_what_was_sent(more: str, data: bytes) -> None:
    """JSON format, 3.1."""
    assert decode(more).data == data


def test_attributes_get_their_canonical_strings() -> None:
    """JSON format, 2.2 and 2.3."""
    event = decode(',"flag":true,"count":-5,"gone":null,"text":"\\u20ac"')
    assert event.attributes[b"flag"] == b"true"
    assert event.attributes[b"count"] == b"-5"
    assert event.attributes[b"text"] == "€".encode()
    assert b"gone" not in event.attributes


@pytest.mark.parametrize(
    ("more", "attribute"),
    [
        (',"id":"2"', "id"),
        (',"\\u0069d":"2"', "id"),
        (',"Upper":"x"', "Upper"),
        (',"with-dash":"x"', "with-dash"),
        (',"f":1.5', "f"),
        (',"big":2147483648', "big"),
        (',"o":{}', "o"),
        (',"a":[]', "a"),
        (',"subject":""', "subject"),
        (',"subject":5', "subject"),
        (',"time":"yesterday"', "time"),
        (',"time":"2026-02-30T00:00:00Z"', "time"),
        (',"dataschema":"relative"', "dataschema"),
        (',"datacontenttype":"nonsense"', "datacontenttype"),
        (',"x":"a\\u0007"', "x"),
        (',"x":"\\u0085"', "x"),
        (',"x":"\\ufffe"', "x"),
        (',"x":"\\ud800"', "x"),
        (',"data":1,"data_base64":"AA=="', "data"),
        (',"data":null,"data_base64":"AA=="', "data"),
        (',"data_base64":"A"', "data_base64"),
        (',"data_base64":"AA"', "data_base64"),
        (',"data_base64":"A A="', "data_base64"),
        (',"data_base64":"AAAA===="', "data_base64"),
        (',"data_base64":5', "data_base64"),
        (',"datacontenttype":"text/plain","data":{}', "data"),
        (',"data":[1,}', "data"),
        (',"data":[1,]', "data"),
        (',"data":{"a":tru}', "data"),
        (',"data":01', "data"),
    ],
)
def test_bad_members_are_refused_by_name(more: str, attribute: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        decode(more)
    assert caught.value.attribute == attribute


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
@pytest.mark.parametrize("instead", [None, '""', "null"])
def test_required_attributes_are_never_invented(missing: str, instead: str | None) -> None:
    """Section 3.1 of the core specification."""
    members = {"specversion": '"1.0"', "id": '"1"', "source": '"/s"', "type": '"t"'}
    del members[missing]
    if instead is not None:
        members[missing] = instead
    text = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    with pytest.raises(CloudEventError) as caught:
        envelope.decode(text.encode())
    assert caught.value.attribute == missing


@pytest.mark.parametrize("version", ["0.3", "1", "1.0.2", "2.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        envelope.decode(f'{{"specversion":"{version}","id":"1","source":"/s","type":"t"}}'.encode())
    assert caught.value.attribute == "specversion"


@pytest.mark.parametrize("source", ["a b", "1:2", "%zz", "/a#b#c", "é"])
def test_source_is_a_uri_reference(source: str) -> None:
    with pytest.raises(CloudEventError) as caught:
        envelope.decode(f'{{"specversion":"1.0","id":"1","source":"{source}","type":"t"}}'.encode())
    assert caught.value.attribute == "source"


@pytest.mark.parametrize(
    "source", ["https://a.example/x?y=z#f", "urn:uuid:6e8bc430", "mailto:a@b.example", "/x/1:2", "x", "%41"]
)
def test_uri_references_are_taken(source: str) -> None:
    event = envelope.decode(f'{{"specversion":"1.0","id":"1","source":"{source}","type":"t"}}'.encode())
    assert event.attributes[b"source"] == source.encode()


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"[]", b"null", b'"x"', b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,}', b'{"a":1}x', b"{a:1}", b'{"\xff":1}'],
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(CloudEventError):
        envelope.decode(text)


def decode_batch(text: bytes, most: int) -> list[CloudEvent | CloudEventError]:
    """A JSON batch of at most `most` events, as its elements one by one."""
    found: list[bytes] = []
    for _ in envelope.elements(text, most, found):
        pass
    return [envelope.decode_element(element) for element in found]


def test_a_batch_is_judged_element_by_element() -> None:
    """JSON batch format: an array, possibly empty; each element is accepted or refused by itself."""
    good = f"{{{HEAD}}}"
    found = decode_batch(f"[{good}, {{}} ,5,{good}]".encode(), 4)
    assert [type(one).__name__ for one in found] == ["CloudEvent", "CloudEventError", "CloudEventError", "CloudEvent"]
    assert decode_batch(b" [ ] ", 0) == []
    for bad in (b"{}", b"[1,", b"[1]]", b"[1 2]"):
        with pytest.raises(CloudEventError):
            decode_batch(bad, 9)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(CloudEventError):
        decode(f',"data":{deep}')


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":["' + b'\\"' * 1_000_000,
        b'{"a":' + b'["a' * 500_000,
        b'{"a":"' + b'\\"' * 1_000_000,
        b'{"datacontenttype":"a/b' + b";  " * 100_000 + b'@"}',
        b"{" + b",".join(b'"a%d":1' % at for at in range(500_000)) + b"}",
        b" " * 3_000_000,
    ],
)
def test_hostile_text_costs_no_more_than_its_length(text: bytes) -> None:
    """Each of these inputs would take minutes if the scanner backtracked."""
    with pytest.raises(CloudEventError):
        envelope.decode(text)


def test_a_batch_of_too_many_is_not_read_to_its_end() -> None:
    with pytest.raises(CloudEventError) as caught:
        decode_batch(b"[" + b"{}," * 2_000_000 + b"{}]", 16_384)
    assert caught.value.too_large


def test_a_media_type_with_many_blanks_is_judged_at_once() -> None:
    with pytest.raises(CloudEventError):
        decode(f',"datacontenttype":"a/b{";  " * 5_000}@"')


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8).filter(lambda text: text.isprintable()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(JSON_VALUES, st.sampled_from([(",", ":"), (" , ", " : "), (",\n", ":\t")]), st.booleans())
def test_any_json_data_comes_back_byte_for_byte(value: object, separators: tuple[str, str], ascii_only: bool) -> None:
    raw = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    event = decode(f',"data":{raw}')
    assert event.data == raw.encode()
    assert json.loads(envelope.encode(event))["data"] == value


@settings(max_examples=100)
@given(st.binary(max_size=64))
def test_any_bytes_survive_as_base64(data: bytes) -> None:
    event = decode(f',"datacontenttype":"image/png","data_base64":"{base64.b64encode(data).decode()}"')
    assert event.data == data
    again = envelope.decode(envelope.encode(event))
    assert (again.data, again.attributes) == (event.data, event.attributes)


@settings(max_examples=100)
@given(st.binary(max_size=40))
def test_random_bytes_are_refused_and_nothing_else(noise: bytes) -> None:
    for text in (noise, b"{" + noise, b'{"data":' + noise + b"}", b"[" + noise + b"]"):
        for read in (envelope.decode, lambda text: decode_batch(text, 5)):
            try:
                read(text)
            except CloudEventError:
                continue


@pytest.mark.parametrize("count", [100, 101])
def test_an_event_has_at_most_a_hundred_attributes(count: int) -> None:
    more = "".join(f',"a{at}":1' for at in range(count - 4))
    if count <= ATTRIBUTES_MAX:
        assert len(decode(more + ',"data":{}').attributes) == count
        return
    with pytest.raises(CloudEventError) as caught:
        decode(more + ',"data":1,"data_base64":null')
    assert caught.value.too_large


def test_data_of_many_small_values_builds_no_objects() -> None:
    """Four million arrays and objects took a second, and hundreds of megabytes."""
    text = b"[" + b",".join([b"[]"] * 1_000_000) + b"]"
    tracemalloc.start()
    try:
        event = envelope.decode(f"{{{HEAD}".encode() + b',"data":' + text + b"}")
        assert tracemalloc.get_traced_memory()[1] < 5 * len(text)
    finally:
        tracemalloc.stop()
    assert event.data == text


def test_a_batch_is_split_in_slices() -> None:
    found: list[bytes] = []
    text = b"[" + b",".join([b'{"data":[[],[]]}'] * 9_000) + b"]"
    assert sum(1 for _ in envelope.elements(text, 9_000, found)) == 9_000 * 9 // envelope.SLICE_TOKENS
    assert len(found) == 9_000


def in_slices(text: bytes) -> tuple[CloudEvent | str, int]:
    """(the event of a text, or why it is none, slices of the work)."""
    steps = envelope.decode_in_slices(text)
    count = 1
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value, count
        except CloudEventError as error:
            return error.text, count
        count += 1


def at_once(text: bytes) -> CloudEvent | str:
    """The event of a text, or why it is none."""
    try:
        return envelope.decode(text)
    except CloudEventError as error:
        return error.text


def facts(event: CloudEvent | str) -> object:
    """What can be compared."""
    return event if isinstance(event, str) else (event.attributes, event.data, event.is_json)


def test_a_large_event_is_decoded_in_slices_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    decode_base64 = binascii.a2b_base64

    def counted(data: bytes, **how: Any) -> bytes:
        sizes.append(len(data))
        return decode_base64(data, **how)

    monkeypatch.setattr(binascii, "a2b_base64", counted)
    body = bytes(at % 251 for at in range(4 << 20))
    event, slices = in_slices(f'{{{HEAD},"data_base64":"{base64.b64encode(body).decode()}"}}'.encode())
    assert isinstance(event, CloudEvent)
    assert event.data == body
    assert max(sizes) == envelope.SLICE_CHARACTERS
    assert slices == len(sizes) + 3, "the members, each part, and the event"


EDGE = envelope.SLICE_CHARACTERS
"""Characters of a slice."""
MEMBERS = [
    '"data":{"b": 1,  "a":[1,2]}', '"data" : "text" ', '"data":nul', '"data":1,"data":1', '"data":1,"data_base64":"AAEC"',
    '"data_base64":7', '"data_base64":"AAAA===="', '"data_base64":"AAAA="',
    '"data_base64":null', '"data_base64":"A"', '"data_base64":"A\\u0041EC"',
    '"datacontenttype":"text/plain","data":"a\\u00e9"', '"datacontenttype":"text/plain","data":4',
    f'"data_base64":"{"A" * EDGE}"', f'"data_base64":"{"A" * (EDGE - 2)}=="', f'"data_base64":"{"A" * (EDGE - 2)}==AAAA"',
    f'"data_base64":"{"A" * EDGE}===="', f'"data_base64":"{"A" * (EDGE + 1)}"', f'"data_base64":"{"A" * EDGE}AQ=="',
    f'"data_base64":"{"A" * (EDGE - 1)}.AAAA"', f'"datacontenttype":"text/json","data_base64":"{"A" * EDGE}{"e30="}"',
]  # fmt: skip
"""Events and what is none, many of them with a fault at the edge of a slice."""


@pytest.mark.parametrize("at", range(len(MEMBERS)))
def test_slices_change_nothing(at: int) -> None:
    text = f"{{{HEAD},{MEMBERS[at]}}}".encode()
    found, _ = in_slices(text)
    assert facts(found) == facts(at_once(text))
