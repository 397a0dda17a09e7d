"""FETCH with a filter (RFC 8132): observers of many paths, and members of groups that want a part of a topic."""

from __future__ import annotations

import random

import pytest

from domain.command import Receive
from domain.message import property as properties
from protocols.coap.message import cbor, message, option
from protocols.coap.message.message import Packet, Pairs
from tests.protocols.coap.stage import Stage, values
from tests.protocols.taken import last

OBSERVE: tuple[int, bytes] = (option.OBSERVE, b"")


def encoded(**members: str) -> bytes:
    """A CBOR map of texts."""

    def text(value: str) -> bytes:
        data = value.encode()
        size = bytes((0x60 | len(data),)) if len(data) < 24 else b"\x78" + bytes((len(data),))
        return size + data

    return bytes((0xA0 | len(members),)) + b"".join(text(name) + text(value) for name, value in members.items())


def fetch(
    stage: Stage, body: bytes, path: str = "mq/rooms", pairs: Pairs | None = None, query: list[str] | None = None
) -> Packet:
    pairs = [(option.CONTENT_FORMAT, b"\x3c")] if pairs is None else pairs
    return stage.request(message.FETCH, path, body, token=b"f", pairs=pairs, query=query or [])[0]


def watching(body: bytes) -> Stage:
    stage = Stage(amplification=0)
    answer = fetch(stage, body, pairs=[(option.CONTENT_FORMAT, b"\x3c"), OBSERVE])
    assert (message.name(answer.code), answer.payload, len(values(answer, option.OBSERVE))) == ("2.05", b"", 1)
    return stage


def heard(stage: Stage) -> list[tuple[str, bytes]]:
    """Path and payload of each notification, acknowledged one by one."""
    found: list[tuple[str, bytes]] = []
    waiting = stage.out()
    while waiting:
        packet = waiting.pop(0)
        assert packet.token == b"f"
        found.append(("/".join(level.decode() for level in values(packet, option.LOCATION_PATH)), packet.payload))
        waiting += stage.push(message.empty(message.ACK, packet.mid))
    return found


def test_an_observer_of_many_paths_is_told_the_path() -> None:
    stage = watching(encoded(path="rooms/+/temp"))
    stage.publish("rooms/1/temp", b"21")
    stage.publish("rooms/1/light", b"on")
    stage.publish("rooms/2/temp", b"22")
    assert heard(stage) == [("mq/rooms/1/temp", b"21"), ("mq/rooms/2/temp", b"22")]


def test_tag_and_sql_select_messages() -> None:
    tagged = properties.entry(properties.TAGS, "alarm")
    stage = watching(encoded(path="rooms/#", tag="alarm || fire"))
    stage.publish("rooms/1", b"no")
    stage.publish("rooms/1", b"yes", stored=tagged)
    assert heard(stage) == [("mq/rooms/1", b"yes")]
    stage = watching(encoded(path="rooms/#", sql="level > 5"))
    stage.publish("rooms/1", b"no", stored=properties.entry("level", "5"))
    stage.publish("rooms/2", b"yes", stored=properties.entry("level", "6"))
    assert heard(stage) == [("mq/rooms/2", b"yes")]


def test_observation_ends_by_observe_1_and_by_reset() -> None:
    stage = watching(encoded(path="rooms/#"))
    fetch(stage, encoded(path="rooms/#"), pairs=[(option.OBSERVE, b"\x01")])
    assert not stage.watches
    stage = watching(encoded(path="rooms/#"))
    stage.publish("rooms/1", b"x")
    [packet] = stage.out()
    stage.push(message.empty(message.RST, packet.mid))
    assert not stage.watches
    assert stage.endpoint.observations.count == 0


def test_a_group_receives_what_matches() -> None:
    stage = Stage(amplification=0)
    stage.queue = [stage.publish("rooms", b"1")]
    answer = fetch(stage, encoded(tag="alarm"), query=["group=g"])
    command = last(stage.commands, Receive)
    assert command.filter is not None
    assert command.filter.expression[1] == "alarm"
    assert (answer.payload, len(values(answer, option.LOCATION_QUERY))) == (b"1", 2)
    answer = fetch(stage, encoded(path="rooms/+/temp"), query=["group=g"], pairs=[OBSERVE])
    command = last(stage.commands, Receive)
    assert command.filter is not None
    assert "rooms/+/temp" in command.filter.expression[1]
    assert stage.endpoint.observations.count == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "4.00"),
        (b"{}", "4.00"),
        (b"\xbf\xff", "4.00"),  # of indefinite length
        (b"\xa1\x64path\x01", "4.00"),
        (encoded(path="rooms/#") + b"\x00", "4.00"),
        (encoded(path="rooms/#", x="y"), "4.22"),
        (encoded(path="rooms/a#"), "4.22"),
        (encoded(path="#"), "4.22"),
        (encoded(path="other/#"), "4.22"),
        (encoded(path=""), "4.22"),
        (encoded(tag="a", sql="b = 1"), "4.22"),
        (encoded(sql="level >"), "4.22"),
    ],
)
def test_bad_bodies(body: bytes, code: str) -> None:
    stage = Stage()
    answer = fetch(stage, body, pairs=[(option.CONTENT_FORMAT, b"\x3c"), OBSERVE])
    assert message.name(answer.code) == code
    assert stage.endpoint.counts[code] == 1
    assert not stage.commands


def test_other_formats_and_questions_without_an_answer() -> None:
    stage = Stage()
    assert message.name(fetch(stage, b"{}", pairs=[(option.CONTENT_FORMAT, b"\x32"), OBSERVE]).code) == "4.15"
    assert message.name(fetch(stage, encoded(path="rooms/#")).code) == "4.22"
    both = fetch(stage, encoded(path="rooms/+", tag="a"), query=["group=g"])
    assert message.name(both.code) == "4.22"


def test_any_bytes_are_a_map_or_none() -> None:
    chance = random.Random(3)
    whole = encoded(path="rooms/+/temp", sql="a = 'b' AND level BETWEEN 1 AND 20000000")
    assert cbor.text_map(whole) == {"path": "rooms/+/temp", "sql": "a = 'b' AND level BETWEEN 1 AND 20000000"}
    for at in range(len(whole)):
        assert cbor.text_map(whole[:at]) is None
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        found = cbor.text_map(bytes(data))
        assert found is None or all(isinstance(value, str) for value in found.values())
