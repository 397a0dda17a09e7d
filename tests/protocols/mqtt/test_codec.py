"""The codec: the vector table, and properties that hold for every packet and every split of the bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.mqtt import property as props
from protocols.mqtt.connect import Auth, Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Decoder, Packet, Ping, encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from protocols.mqtt.wire import PacketError, put_varint, varint, varint_size
from tests.protocols.mqtt.vectors import ALL, Vector, h

LIMIT = 4 * 1024 * 1024


def fields(packet: object) -> object:
    """A packet as plain values, so that two of them can be compared."""
    if isinstance(packet, Properties):
        return (packet.numbers, packet.texts, packet.blobs, packet.user, packet.subscription_ids)
    names = getattr(type(packet), "__slots__", None) or getattr(type(packet), "__mypyc_attrs__", None)
    if names is None:
        return packet
    return (type(packet).__name__, [(name, fields(getattr(packet, name))) for name in names])


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: f"{vector.name} ({vector.clause})")
def test_vector(vector: Vector) -> None:
    decoder = Decoder(LIMIT, vector.version)
    packets = decoder.feed(vector.data)
    if isinstance(vector.expected, int):
        assert decoder.fault is not None, "it was taken"
        assert decoder.fault.code == vector.expected, decoder.fault.text
        assert packets == []
    else:
        assert decoder.fault is None
        assert len(packets) == 1
        assert {name: getattr(packets[0], name) for name in vector.expected} == vector.expected


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
BLOB = st.binary(max_size=8)
PACKET_ID = st.integers(1, 65_535)


@st.composite
def sections(draw: st.DrawFn, where: int) -> Properties:
    """Properties that a packet of type `where` may have."""
    out = Properties()
    for name, (kind, places) in props._KINDS.items():
        if where not in places or not draw(st.booleans()):
            continue
        if name == props.USER_PROPERTY:
            out.user = draw(st.lists(st.tuples(TEXT, TEXT), max_size=3))
        elif name == props.SUBSCRIPTION_ID:
            most = 1 if where == props.SUBSCRIBE else 3
            out.subscription_ids = draw(st.lists(st.integers(1, 268_435_455), max_size=most))
        elif kind == props._TEXT:
            out.texts[name] = draw(TEXT)
        elif kind == props._BINARY:
            out.blobs[name] = draw(BLOB)
        else:
            out.numbers[name] = draw(st.integers(1, {0: 1, 1: 255, 2: 65_535, 3: 0xFFFFFFFF}[kind]))
    if props.AUTH_DATA in out.blobs:
        out.texts.setdefault(props.AUTH_METHOD, "m")
    return out


@st.composite
def packets(draw: st.DrawFn, version: int, client: bool) -> Packet:
    """Any packet that a client (or a server) of `version` may send, CONNECT apart."""

    def section(where: int) -> Properties:
        return draw(sections(where)) if version == 5 else NONE

    kinds = [3, 4, 5, 6, 7, 14] + ([8, 10, 12] if client else [2, 9, 11, 13]) + ([15] if version == 5 else [])
    kind = draw(st.sampled_from(kinds))
    if kind == 3:
        qos = draw(st.integers(0, 2))
        packet_id = draw(PACKET_ID) if qos else 0
        topic = draw(TEXT).encode()
        return Publish(topic, draw(BLOB), qos, draw(st.booleans()), qos > 0 and draw(st.booleans()), packet_id, section(3))
    if kind in (4, 5, 6, 7):
        codes = [0, 0x92] if kind > 5 else [0, 0x10, 0x80, 0x97]
        return Ack(kind, draw(PACKET_ID), draw(st.sampled_from(codes)) if version == 5 else 0, section(kind))
    if kind == 8:
        filters = st.lists(st.tuples(TEXT, st.integers(0, 2)), min_size=1, max_size=3)
        return Subscribe(draw(PACKET_ID), draw(filters), section(8))
    if kind == 10:
        return Unsubscribe(draw(PACKET_ID), draw(st.lists(TEXT, min_size=1, max_size=3)), section(10))
    if kind in (12, 13):
        return Ping(kind)
    if kind == 2:
        return Connack(draw(st.booleans()), draw(st.integers(0, 5)), section(2))
    if kind in (9, 11):
        empty = kind == 11 and version != 5
        return Suback(draw(PACKET_ID), b"" if empty else draw(st.binary(min_size=1, max_size=3)), section(kind), kind == 11)
    if kind == 15:
        return Auth(draw(st.sampled_from([0, 0x18, 0x19])), section(15))
    return Disconnect(draw(st.integers(0, 255)) if version == 5 else 0, section(14))


@st.composite
def connects(draw: st.DrawFn) -> Connect:
    """Any legal CONNECT."""
    version = draw(st.sampled_from([3, 4, 5]))
    will = None
    if draw(st.booleans()):
        about = draw(sections(props.WILL)) if version == 5 else NONE
        will = Will(draw(TEXT), draw(BLOB), draw(st.integers(0, 2)), draw(st.booleans()), about)
    user = draw(st.none() | TEXT)
    password = draw(st.none() | BLOB) if user is not None or version == 5 else None
    section = draw(sections(props.CONNECT)) if version == 5 else NONE
    return Connect(version, draw(TEXT), draw(st.booleans()), draw(st.integers(0, 65_535)), will, user, password, section)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([4, 5]), st.booleans())
def test_decoding_undoes_encoding(data: st.DataObject, version: int, client: bool) -> None:
    packet = data.draw(packets(version, client))
    decoder = Decoder(LIMIT, version, client=not client)
    assert [fields(got) for got in decoder.feed(encode(packet, version))] == [fields(packet)]
    assert decoder.fault is None


@settings(max_examples=100, deadline=None)
@given(connects())
def test_decoding_undoes_encoding_of_connect(packet: Connect) -> None:
    decoder = Decoder(LIMIT)
    assert [fields(got) for got in decoder.feed(encode(packet, packet.version))] == [fields(packet)]
    assert decoder.version == packet.version


@settings(max_examples=100, deadline=None)
@given(st.data(), connects())
def test_any_split_gives_the_same_packets(data: st.DataObject, first: Connect) -> None:
    version = first.version
    rest = data.draw(st.lists(packets(version, True), max_size=4))
    stream = encode(first, version) + b"".join(encode(packet, version) for packet in rest)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    whole = Decoder(LIMIT)
    expected = [fields(packet) for packet in whole.feed(stream)]
    assert whole.fault is None
    assert len(expected) == 1 + len(rest)
    split = Decoder(LIMIT)
    got = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if begin < end:
            got += split.feed(stream[begin:end])
    assert [fields(packet) for packet in got] == expected
    assert not split.incomplete


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([0, 3, 4, 5]), st.booleans(), st.lists(st.binary(max_size=40), max_size=5))
def test_no_input_raises(version: int, client: bool, pieces: list[bytes]) -> None:
    decoder = Decoder(1_000, version, client)
    for piece in pieces:
        decoder.feed(piece)
        if decoder.fault is not None:
            assert decoder.feed(piece) == []


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, 60), st.integers(0, 255), st.integers(0, 60))
def test_no_damage_to_a_packet_raises(vector: Vector, at: int, byte: int, cut: int) -> None:
    data = bytearray(vector.data)
    data[at % len(data)] = byte
    for version in (0, 4, 5):
        Decoder(LIMIT, version).feed(bytes(data))
        Decoder(LIMIT, version).feed(bytes(data[: cut % len(data)]))


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_truncation_waits_or_refuses_and_never_invents(vector: Vector) -> None:
    for end in range(len(vector.data)):
        decoder = Decoder(LIMIT, vector.version)
        assert decoder.feed(vector.data[:end]) == []


PUBACKS = st.lists(st.sampled_from((h("40020001"), h("4002ffff"), h("40020000"), h("c000"), h("40"))), min_size=1, max_size=4)


@given(PUBACKS, st.booleans(), st.sampled_from((0, 4)))
def test_pubacks_alone_are_those_of_feed_and_anything_else_is_left_to_it(pieces: list[bytes], held: bool, version: int) -> None:
    decoder, other = Decoder(1_000, version), Decoder(1_000, version)
    if held and version:
        assert decoder.feed(b"\x40") == other.feed(b"\x40") == []
    data = b"".join(pieces)
    found = decoder.pubacks(data)
    packets = other.feed(data)
    only = version and not held and len(data) == 4 * len(pieces) and other.fault is None
    assert found == ([packet.packet_id for packet in packets if isinstance(packet, Ack)] if only else [])
    if found:
        assert not other.incomplete


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 268_435_455))
def test_variable_byte_integers(value: int) -> None:
    """1.5.5: at most four bytes, and no more than needed."""
    data = put_varint(value)
    assert len(data) == varint_size(value)
    assert varint(data, 0) == value
    with pytest.raises(PacketError):
        varint(data[:-1], 0)
