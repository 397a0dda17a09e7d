"""Topics of the publish-subscribe draft on a whole node: their resources, their states, and their bounds (draft 20)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from domain.address import host_bytes
from domain.admin.topic import PutTopic
from domain.command import QueryLatest, Send
from domain.event import LatestValue
from domain.message import property as properties
from domain.message.message import RETAIN_DELETE, RETAIN_SET, Message
from domain.message.record import Record
from domain.topic.data_topic import INITIALIZE_BYTES_MAX, NAME_BYTES_MAX, TYPE_BYTES_MAX
from domain.topic.topic import Topic
from gateway.node.settings import Config
from protocols.adapter import Peer
from protocols.coap.message import cbor, message, option
from protocols.coap.message.cbor import Tagged
from protocols.coap.message.frame import Frame
from protocols.coap.message.message import Packet
from protocols.coap.pubsub.representation import FORMAT
from tests.gateway.pubsub.book import book_of
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.protocols.coap.broker import Broker, Device, Streamed
from tests.protocols.coap.stage import values
from tests.protocols.taken import only

PUBSUB = (option.CONTENT_FORMAT, message.uint(FORMAT))
OBSERVE = (option.OBSERVE, b"")
KIND = "core.ps.data"


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def device(broker: Broker) -> Device:
    return broker.devices.device()


def code(packet: Packet) -> str:
    return message.name(packet.code)


def create(device: Device, name: str, more: Mapping[int, Any] | None = None) -> Packet:
    return device.ask(message.POST, "ps", cbor.encode({0: name, 2: KIND, **(more or {})}), pairs=[PUBSUB])


def made(device: Device, name: str, more: Mapping[int, Any] | None = None) -> str:
    """The id of a new topic."""
    answer = create(device, name, more)
    assert code(answer) == "2.01", answer.payload
    root, identity = values(answer, option.LOCATION_PATH)
    assert root == b"ps"
    return identity.decode()


def read(device: Device, identity: str) -> dict[int, Any]:
    answer = device.ask(message.GET, f"ps/{identity}")
    assert (code(answer), values(answer, option.CONTENT_FORMAT)) == ("2.05", [message.uint(FORMAT)])
    found = cbor.decode(answer.payload)
    assert isinstance(found, dict)
    return found


def publish(device: Device, identity: str, body: bytes, number: int = 0) -> str:
    pairs = [(option.CONTENT_FORMAT, message.uint(number))]
    return code(device.ask(message.PUT, f"ps/data/{identity}", body, pairs=pairs))


def subscribe(device: Device, identity: str, token: bytes = b"s") -> Packet:
    return device.ask(message.GET, f"ps/data/{identity}", token=token, pairs=[OBSERVE])


def links(device: Device, *query: str) -> list[str]:
    answer = device.ask(message.GET, "ps", query=query)
    assert (code(answer), values(answer, option.CONTENT_FORMAT)) == ("2.05", [b"\x28"])
    return [text for text in answer.payload.decode().split(",") if text]


def elsewhere(broker: Broker, path: str, body: bytes, retain: int = 0, protocol: str = "mqtt") -> None:
    """A message that another protocol publishes."""
    topic = path.partition("/")[0]
    pairs = [(properties.HG_PROTOCOL, protocol)]
    if retain:
        pairs.append((properties.MQTT_RETAIN, "true"))
    if topic != path:
        pairs.append((properties.ORIGIN_MQTT_TOPIC, path))
    broker.parts.gate.handle(
        EventRecorder().connection, Send(1, [Message(topic, body, properties.encode(pairs), retain=retain)])
    )
    broker.devices.run(20)


def test_a_topic_is_made_read_changed_and_deleted(device: Device) -> None:
    answer = create(device, "living-room-sensor", {3: 112, 4: "temperature", 6: 100})
    assert code(answer) == "2.01"
    identity = values(answer, option.LOCATION_PATH)[1].decode()
    whole = {0: "living-room-sensor", 1: f"/ps/data/{identity}", 2: KIND, 3: 112, 4: "temperature", 6: 100, 7: 86_400}
    assert cbor.decode(answer.payload) == whole
    assert read(device, identity) == whole
    patch = device.ask(message.IPATCH, f"ps/{identity}", cbor.encode({5: Tagged(1, 1_900_000_000), 6: 5}), pairs=[PUBSUB])
    assert (code(patch), cbor.decode(patch.payload)) == ("2.04", {**whole, 5: Tagged(1, 1_900_000_000), 6: 5})
    replaced = device.ask(
        message.POST, f"ps/{identity}", cbor.encode({0: "living-room-sensor", 2: KIND, 3: 110}), pairs=[PUBSUB]
    )
    assert code(replaced) == "2.04"
    assert read(device, identity) == {0: "living-room-sensor", 1: f"/ps/data/{identity}", 2: KIND, 3: 110, 7: 86_400}
    assert code(device.ask(message.DELETE, f"ps/{identity}")) == "2.02"
    assert code(device.ask(message.GET, f"ps/{identity}")) == "4.04"
    assert code(device.ask(message.DELETE, f"ps/{identity}")) == "4.04"
    assert links(device) == []


@pytest.mark.parametrize("body", [{9: [1, 3]}, [1, 3]])
def test_a_fetch_reads_a_part_of_a_topic(device: Device, body: Any) -> None:
    identity = made(device, "t", {3: 112, 4: "x"})
    number = FORMAT if isinstance(body, dict) else 60
    pairs = [(option.CONTENT_FORMAT, message.uint(number))]
    answer = device.ask(message.FETCH, f"ps/{identity}", cbor.encode(body), pairs=pairs)
    assert (code(answer), cbor.decode(answer.payload)) == ("2.05", {1: f"/ps/data/{identity}", 3: 112})


def test_the_collection_lists_what_matches(device: Device) -> None:
    one, two = made(device, "house/a", {4: "temperature"}), made(device, "house/b", {4: "humidity", 3: 60})
    assert links(device) == [f"</ps/{one}>", f"</ps/{two}>"]
    assert links(device, "rt=core.ps.conf") == [f"</ps/{one}>", f"</ps/{two}>"]
    assert links(device, "rt=core.ps.data") == [f"</ps/data/{one}>", f"</ps/data/{two}>"]
    assert links(device, "topic-type=temp*") == [f"</ps/{one}>"]
    assert links(device, "topic-name=house/b") == [f"</ps/{two}>"]
    assert links(device, f"href=/ps/{one}") == [f"</ps/{one}>"]
    assert links(device, "rt=other") == links(device, "title=x") == links(device, "topic-name=nobody") == []
    for wanted, found in [
        ({0: "house/b", 2: KIND}, [two]),
        ({3: 60}, [two]),
        ({3: 61}, []),
        ({2: "other"}, []),
        ({}, [one, two]),
    ]:
        answer = device.ask(message.FETCH, "ps", cbor.encode(wanted), pairs=[PUBSUB])
        assert answer.payload.decode() == ",".join(f"</ps/{each}>" for each in found)


def test_discovery(device: Device) -> None:
    for query in ("rt=core.ps", "rt=core.ps.coll"):
        answer = device.ask(message.GET, ".well-known/core", query=[query])
        assert answer.payload == b'</ps>;rt="core.ps core.ps.coll";ct=40'


def test_states_of_a_topic(broker: Broker, device: Device) -> None:
    identity = made(device, "field/soil")
    data = f"ps/data/{identity}"
    assert code(device.ask(message.GET, data)) == "4.04"  # half created
    refused = subscribe(device, identity)
    assert (code(refused), values(refused, option.OBSERVE)) == ("4.04", [])
    assert book_of(broker.parts).subscribers.count == 0
    assert publish(device, identity, b"1") == "2.01"
    assert publish(device, identity, b"2") == "2.04"
    answer = device.ask(message.GET, data)
    assert (code(answer), answer.payload) == ("2.05", b"2")
    assert subscribe(device, identity).payload == b"2"
    assert code(device.ask(message.DELETE, data)) == "2.02"  # half created again
    [last] = device.notes()
    assert (last.token, code(last), last.payload) == (b"s", "4.04", b"")
    assert code(device.ask(message.GET, data)) == "4.04"
    assert read(device, identity)[1] == f"/{data}"
    assert publish(device, identity, b"3") == "2.01"
    assert device.notes() == []
    assert subscribe(device, identity).payload == b"3"
    assert code(device.ask(message.DELETE, f"ps/{identity}")) == "2.02"
    assert [code(each) for each in device.notes()] == ["4.04"]
    assert code(device.ask(message.GET, data)) == "4.04"
    assert publish(device, identity, b"4") == "4.04"
    assert code(device.ask(message.GET, "mq/field/soil")) == "4.04"  # its data is gone with it
    assert book_of(broker.parts).subscribers.count == broker.parts.watches.watching == 0


def test_initialize_makes_a_topic_with_data(device: Device) -> None:
    identity = made(device, "t", {3: 60, 8: b"\x80"})
    answer = subscribe(device, identity)
    assert (answer.payload, values(answer, option.CONTENT_FORMAT)) == (b"\x80", [b"\x3c"])
    assert publish(device, identity, b"\x81\x01", 60) == "2.04"
    assert [each.payload for each in device.notes()] == [b"\x81\x01"]
    assert read(device, identity)[8] == b"\x80"
    device.ask(message.DELETE, f"ps/data/{identity}")
    assert code(device.ask(message.GET, f"ps/data/{identity}")) == "4.04"  # it is not initialized again


def test_data_of_another_format_is_refused(device: Device) -> None:
    identity = made(device, "t", {3: 60})
    assert publish(device, identity, b"x", 50) == "4.15"
    assert code(device.ask(message.PUT, f"ps/data/{identity}", b"x")) == "4.15"
    assert publish(device, identity, b"\x80", 60) == "2.01"


def test_names_are_unique_and_stay(device: Device) -> None:
    identity = made(device, "t")
    assert code(create(device, "t")) == "4.00"
    other = made(device, "u")
    for change in ({0: "u"}, {1: f"/ps/data/{other}"}, {1: "coap://other/"}, {2: "other"}):
        for method in (message.POST, message.IPATCH):
            answer = device.ask(method, f"ps/{identity}", cbor.encode(change), pairs=[PUBSUB])
            assert code(answer) == "4.00", change
    assert read(device, identity)[0] == "t"
    device.ask(message.DELETE, f"ps/{identity}")
    made(device, "t")


BAD: list[Any] = [
    b"", b"\xff", b"\xa1", {}, [], {0: "t"}, {2: KIND}, {0: "", 2: KIND}, {0: 5, 2: KIND}, {0: "t", 2: 7}, {0: "t", 2: "other"},
    {0: "t", 2: KIND, 1: "/ps/data/mine"}, {0: "t", 2: KIND, 3: -1}, {0: "t", 2: KIND, 3: 70_000}, {0: "t", 2: KIND, 3: True},
    {0: "t", 2: KIND, 4: 4}, {0: "t", 2: KIND, 4: "x" * (TYPE_BYTES_MAX + 1)}, {0: "t", 2: KIND, 5: 1_900_000_000},
    {0: "t", 2: KIND, 5: Tagged(0, "2030")}, {0: "t", 2: KIND, 5: Tagged(1, 5)}, {0: "t", 2: KIND, 5: Tagged(1, math.nan)},
    {0: "t", 2: KIND, 5: Tagged(1, 1 << 60)}, {0: "t", 2: KIND, 6: -1}, {0: "t", 2: KIND, 6: 1 << 60}, {0: "t", 2: KIND, 7: 0},
    {0: "t", 2: KIND, 7: "x"}, {0: "t", 2: KIND, 8: b"x"}, {0: "t", 2: KIND, 3: 0, 8: "x"}, {0: "t", 2: KIND, 9: [1]},
    {0: "t", 2: KIND, 3: 0, 8: bytes(INITIALIZE_BYTES_MAX + 1)}, {0: "t", 2: KIND, 10: 1}, {0: "t", 2: KIND, "name": 1},
    {0: "a/../b", 2: KIND}, {0: "a/+", 2: KIND}, {0: "#", 2: KIND}, {0: "$SYS/x", 2: KIND}, {0: "a\x00", 2: KIND},
    {0: "x" * (NAME_BYTES_MAX + 1), 2: KIND},
]  # fmt: skip


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body)[:40])
def test_bad_topics_are_refused(device: Device, body: Any) -> None:
    data = body if isinstance(body, bytes) else cbor.encode(body)
    assert code(device.ask(message.POST, "ps", data, pairs=[PUBSUB])) == "4.00"
    assert links(device) == []


def test_methods_and_paths_that_are_none(device: Device) -> None:
    identity = made(device, "t")
    for method, path in [
        (message.PUT, "ps"), (message.DELETE, "ps"), (message.IPATCH, "ps"), (message.PUT, f"ps/{identity}"),
        (message.PATCH, f"ps/{identity}"), (message.POST, f"ps/data/{identity}"), (message.FETCH, f"ps/data/{identity}"),
    ]:  # fmt: skip
        assert code(device.ask(method, path, b"\xa0")) == "4.05", (method, path)
    for path in ("ps/data", "ps/none", "ps/data/none", "ps/data/none/deep", f"ps/{identity}/deep", "ps/../mq"):
        assert code(device.ask(message.GET, path)) == "4.04", path
    for pairs in ([(option.CONTENT_FORMAT, b"\x32")], [(option.CONTENT_FORMAT, b"")]):
        assert code(device.ask(message.POST, "ps", b"{}", pairs=pairs)) == "4.15"
    assert code(device.ask(message.GET, "ps", pairs=[(option.ACCEPT, b"\x32")])) == "4.06"
    assert code(device.ask(message.GET, f"ps/{identity}", pairs=[(option.ACCEPT, b"\x32")])) == "4.06"
    in_cbor = device.ask(message.GET, f"ps/{identity}", pairs=[(option.ACCEPT, b"\x3c")])
    assert (code(in_cbor), values(in_cbor, option.CONTENT_FORMAT)) == ("2.05", [b"\x3c"])
    assert code(device.ask(message.FETCH, f"ps/{identity}", cbor.encode({9: [11]}), pairs=[PUBSUB])) == "4.00"
    assert code(device.ask(message.GET, f"ps/{identity}", pairs=[(13, b"x")])) == "4.02"


def test_subscribers_beyond_the_maximum_read_once(broker: Broker) -> None:
    devices = [broker.devices.device(port=40_000 + number) for number in range(3)]
    identity = made(devices[0], "t", {6: 2})
    publish(devices[0], identity, b"1")
    answers = [subscribe(each, identity) for each in devices]
    assert [(code(each), each.payload, len(values(each, option.OBSERVE))) for each in answers] == [
        ("2.05", b"1", 1), ("2.05", b"1", 1), ("2.05", b"1", 0),
    ]  # fmt: skip
    assert len(values(subscribe(devices[0], identity), option.OBSERVE)) == 1, "it is one of the two already"
    publish(devices[2], identity, b"2")
    assert [[note.payload for note in each.notes()] for each in devices] == [[b"2"], [b"2"], []]
    devices[1].ask(message.GET, f"ps/data/{identity}", token=b"s", pairs=[(option.OBSERVE, b"\x01")])
    assert len(values(subscribe(devices[2], identity), option.OBSERVE)) == 1
    devices[0].ask(message.IPATCH, f"ps/{identity}", cbor.encode({6: 1}), pairs=[PUBSUB])
    assert [[code(note) for note in each.notes()] for each in devices] == [[], [], ["4.04"]]  # the newest has to go
    assert book_of(broker.parts).subscribers.count == 1


def test_the_maximum_counts_all_transports(broker: Broker, device: Device) -> None:
    stream = Streamed(broker.parts, broker.clock, Peer("192.0.2.9", 50_000, host_bytes("192.0.2.9", 50_000)))
    identity = made(device, "t", {6: 1, 3: 0, 8: b"first"})
    [frame] = stream.ask(message.GET, f"ps/data/{identity}", token=b"s", pairs=[OBSERVE])
    assert (message.name(frame.code), len(of(frame, option.OBSERVE)), rest(frame)) == ("2.05", 1, b"first")
    assert values(subscribe(device, identity), option.OBSERVE) == []
    publish(device, identity, b"second")
    stream.run(20)
    assert [rest(each) for each in stream.frames()] == [b"second"]
    device.ask(message.DELETE, f"ps/data/{identity}")
    stream.run(20)
    [last] = stream.frames()
    assert (message.name(last.code), last.token) == ("4.04", b"s")
    publish(device, identity, b"third")
    stream.ask(message.GET, f"ps/data/{identity}", token=b"s", pairs=[OBSERVE])
    stream.close()
    assert len(values(subscribe(device, identity), option.OBSERVE)) == 1, "the place of a client that has gone is free"


def of(frame: Frame, number: int) -> list[bytes]:
    found = message.split(frame.rest, 0)
    assert found is not None
    return [value for key, value in found[0] if key == number]


def rest(frame: Frame) -> bytes:
    found = message.split(frame.rest, 0)
    assert found is not None
    return frame.rest[found[1] + 1 :]


def test_a_topic_is_one_with_the_path_of_its_name(broker: Broker, device: Device) -> None:
    identity = made(device, "house/kitchen")
    recorder = EventRecorder()
    publish(device, identity, b"21", 0)
    broker.parts.gate.handle(recorder.connection, QueryLatest(1, "house/kitchen"))
    broker.devices.run(20)
    event = only(recorder.take(), LatestValue)
    assert event.record is not None
    record = Record(event.record)
    assert (record.topic, record.body) == ("house", b"21")
    assert properties.content_type(record.properties) == "text/plain; charset=utf-8"
    assert device.ask(message.GET, "mq/house/kitchen").payload == b"21"
    device.ask(message.PUT, "mq/house/kitchen", b"22", pairs=[(option.CONTENT_FORMAT, b"")])
    assert subscribe(device, identity).payload == b"22"
    elsewhere(broker, "house/kitchen", b"23", RETAIN_SET)
    elsewhere(broker, "house/kitchen", b"24")  # live, but not the latest value
    assert [each.payload for each in device.notes()] == [b"23", b"24"]
    assert device.ask(message.GET, f"ps/data/{identity}").payload == b"23"


@pytest.mark.parametrize("by", ["coap", "mqtt"])
def test_a_value_removed_elsewhere_ends_subscriptions(broker: Broker, device: Device, by: str) -> None:
    identity = made(device, "house/kitchen", {3: 0, 8: b"1"})
    subscribe(device, identity)
    plain = broker.devices.device(port=41_000)
    plain.ask(message.GET, "mq/house/kitchen", token=b"p", pairs=[OBSERVE])
    if by == "coap":
        plain.ask(message.DELETE, "mq/house/kitchen")
    else:
        elsewhere(broker, "house/kitchen", b"", RETAIN_DELETE)
    assert [code(each) for each in device.notes()] == ["4.04"]
    assert all(code(each) == "2.05" for each in plain.notes()), "the observer of the path stays"
    assert publish(device, identity, b"2") == "2.01"
    assert [each.payload for each in plain.notes()][-1:] == [b"2"]


def test_an_expired_topic_is_deleted(broker: Broker, device: Device) -> None:
    soon = broker.clock.wall_ms() / 1000 + 30
    identity = made(device, "t", {3: 0, 5: Tagged(1, soon), 8: b"1"})
    assert read(device, identity)[5] == Tagged(1, soon)
    later = made(device, "u", {5: Tagged(1, soon + 60)})
    subscribe(device, identity)
    broker.devices.run(29_000)
    assert device.notes() == []
    broker.devices.run(2_000)
    assert [code(each) for each in device.notes()] == ["4.04"]
    assert code(device.ask(message.GET, f"ps/{identity}")) == "4.04"
    assert code(device.ask(message.GET, "mq/t")) == "4.04"
    assert links(device) == [f"</ps/{later}>"]
    never = device.ask(message.POST, f"ps/{later}", cbor.encode({0: "u", 2: KIND}), pairs=[PUBSUB])
    assert 5 not in cbor.decode(never.payload)
    broker.devices.run(100_000)
    assert links(device) == [f"</ps/{later}>"]


def test_topics_and_what_expires_survive_a_kill(broker: Broker, device: Device) -> None:
    soon = int(broker.clock.wall_ms() / 1000) + 30
    kept = made(device, "house/a", {3: 0, 6: 7, 8: b"1"})
    gone = made(device, "house/b")
    ending = made(device, "house/c", {5: Tagged(1, soon)})
    device.ask(message.DELETE, f"ps/{gone}")
    before = read(device, kept)
    broker.kill()
    device = broker.devices.device()
    assert sorted(links(device)) == sorted([f"</ps/{kept}>", f"</ps/{ending}>"])
    assert read(device, kept) == before
    assert subscribe(device, kept).payload == b"1"
    assert publish(device, kept, b"2") == "2.04"
    assert code(create(device, "house/a")) == "4.00"
    broker.devices.run(31_000)
    assert links(device) == [f"</ps/{kept}>"]


def test_observer_check_asks_silent_subscribers(broker: Broker, device: Device) -> None:
    identity = made(device, "t", {3: 0, 7: 60, 8: b"1"})
    assert read(device, identity)[7] == 60
    subscribe(device, identity)
    device.notes()
    broker.devices.run(61_000)
    [check] = device.take()
    assert (check.kind, check.token, check.payload) == (message.CON, b"s", b"1")
    broker.devices.run(100_000)  # nobody answers
    assert book_of(broker.parts).subscribers.count == 0
    low = made(device, "u", {7: 1})
    assert read(device, low)[7] == 30, "a check is a message to each subscriber"


def test_a_change_of_observer_check_counts_for_subscribers_that_are_there(broker: Broker, device: Device) -> None:
    identity = made(device, "t", {3: 0, 8: b"1"})
    subscribe(device, identity)
    device.ask(message.IPATCH, f"ps/{identity}", cbor.encode({7: 40}), pairs=[PUBSUB])
    device.notes()
    broker.devices.run(45_000)
    assert [each.payload for each in device.notes()] == [b"1"]


def test_topics_are_bounded_and_nobody_has_all(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pubsub.quota.TOPICS_MAX", 6)
    greedy, other = broker.devices.device(host="192.0.2.1"), broker.devices.device(host="192.0.2.2")
    assert [code(create(greedy, f"a{number}")) for number in range(5)] == ["2.01"] * 3 + ["4.29"] * 2
    refused = create(greedy, "b")
    assert values(refused, option.MAX_AGE) != []
    assert [code(create(other, f"c{number}")) for number in range(4)] == ["2.01"] * 3 + ["4.29"]
    assert book_of(broker.parts).refused == 4
    [first] = links(greedy, "topic-name=a0")
    greedy.ask(message.DELETE, first[2:-1])
    assert code(create(greedy, "again")) == "2.01"


def test_records_of_topics_are_bounded(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.pubsub.quota.RECORDS_BYTES_MAX", 18_500)
    device = broker.devices.device()
    one = made(device, "one", {3: 0, 8: bytes(1_000)})
    block = {3: 0, 8: bytes(3_000)}
    answers = [device.ask(message.IPATCH, f"ps/{one}", cbor.encode(block), pairs=[PUBSUB]), create(device, "two", block)]
    answers.append(create(device, "three", block))
    assert [code(each) for each in answers] == ["2.04", "2.01", "4.29"]
    grown = device.ask(message.IPATCH, f"ps/{one}", cbor.encode({8: bytes(4_000)}), pairs=[PUBSUB])
    assert code(grown) == "4.29"
    [size] = values(device.ask(message.GET, f"ps/{one}"), option.SIZE2)
    assert 3_000 < int.from_bytes(size, "big") < 3_100


def test_a_body_in_blocks_and_a_list_in_blocks(device: Device) -> None:
    body = cbor.encode({0: "t", 2: KIND, 3: 0, 8: bytes(2_000)})
    for number in range(0, len(body), 1024):
        part = body[number : number + 1024]
        more = number + 1024 < len(body)
        block = message.uint(number // 1024 << 4 | more << 3 | 6)
        answer = device.ask(message.POST, "ps", part, pairs=[PUBSUB, (option.BLOCK1, block)])
        assert code(answer) == ("2.31" if more else "2.01")
    for number in range(60):
        made(device, f"t{number}")
    first = device.ask(message.GET, "ps")
    [block] = values(first, option.BLOCK2)
    assert block == b"\x0e"
    made(device, "between")
    second = device.ask(message.GET, "ps", pairs=[(option.BLOCK2, b"\x16")])
    assert len((first.payload + second.payload).split(b",")) == 61


def test_conditions_on_data(device: Device) -> None:
    identity = made(device, "t")
    data = f"ps/data/{identity}"
    assert code(device.ask(message.PUT, data, b"1", pairs=[(option.IF_NONE_MATCH, b"")])) == "2.01"
    assert code(device.ask(message.PUT, data, b"2", pairs=[(option.IF_NONE_MATCH, b"")])) == "4.12"
    [etag] = values(device.ask(message.GET, data), option.ETAG)
    assert code(device.ask(message.DELETE, data, pairs=[(option.IF_MATCH, b"other")])) == "4.12"
    assert code(device.ask(message.GET, data, pairs=[(option.ETAG, etag)])) == "2.03"
    assert code(device.ask(message.PUT, data, b"2", pairs=[(option.IF_MATCH, etag)])) == "2.04"
    [etag] = values(device.ask(message.GET, data), option.ETAG)
    assert code(device.ask(message.DELETE, data, pairs=[(option.IF_MATCH, etag)])) == "2.02"
    assert code(device.ask(message.GET, data)) == "4.04"


def test_non_confirmable_publication(device: Device) -> None:
    identity = made(device, "t")
    answer = device.ask(message.PUT, f"ps/data/{identity}", b"1", kind=message.NON)
    assert (answer.kind, code(answer)) == (message.NON, "2.01")
    silent = device.say(message.PUT, f"ps/data/{identity}", b"2", kind=message.NON, pairs=[(option.NO_RESPONSE, b"\x1a")])
    assert silent == []
    assert device.ask(message.GET, f"ps/data/{identity}").payload == b"2"


def test_an_unverified_address_gets_no_more_than_three_times_its_bytes() -> None:
    broker = Broker(Config(tables={"coap": {}}))
    device = broker.devices.device(host="203.0.113.5")
    identity = made(broker.devices.device(host="203.0.113.9"), "x" * 300, {4: "y" * 100})
    path = [(option.URI_PATH, b"ps"), (option.URI_PATH, identity.encode())]
    listed = device.say(message.GET, "ps", query=["rt=core.ps.conf"])
    assert [(code(each), each.payload) for each in listed] == [("2.05", f"</ps/{identity}>".encode())]
    for method, body in ((message.IPATCH, cbor.encode({6: 5})), (message.GET, b""), (message.FETCH, cbor.encode([0]))):
        broker.devices.mid += 1
        data = message.encode(message.CON, method, broker.devices.mid, b"", message.join(path), body)
        broker.devices.carry_out(broker.devices.endpoint.receive(data, device.peer, broker.clock.monotonic_ns()))
        got = broker.devices.endpoint.outgoing()
        assert 0 < sum(len(each) for each, _ in got) <= 3 * len(data)


def test_a_message_group_and_a_delay_need_a_topic_of_that_type(broker: Broker, device: Device) -> None:
    for name, kind in (("plain", "NORMAL"), ("ordered", "FIFO"), ("later", "DELAY")):
        broker.parts.gate.handle(EventRecorder().connection, PutTopic(1, Topic(name, 1, 1, type=kind)))
    broker.devices.run(20)
    taken = {
        (topic, query): code(device.ask(message.POST, f"mq/{topic}", b"x", query=[query]))
        for topic in ("plain", "ordered", "later", "mixed")
        for query in ("mg=a", "delay_ms=5", "key=a")
    }
    refused = {("plain", "mg=a"), ("plain", "delay_ms=5"), ("ordered", "delay_ms=5"), ("later", "mg=a")}
    assert {each for each, answer in taken.items() if answer == "4.00"} == refused
    assert {answer for each, answer in taken.items() if each not in refused} == {"2.01"}
