"""MQTT clients that misbehave: what each of them makes the node do stays bounded, and neighbours do not notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.runtime.compiled import in_use
from protocols.host_shares import SHARED_BYTES_MAX
from protocols.mqtt.connect import Connect, Will
from protocols.mqtt.packet import Packet, Ping, encode
from protocols.mqtt.property import NONE, TOPIC_ALIAS, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Subscribe, Unsubscribe
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream

V311, V5 = 4, 5
PUBACK, PUBREC, PUBREL = 4, 5, 6
SMALL = 8 * 1024 * 1024
"""What one attack of these tests may hold: far below the bound for the process."""


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as running:
        yield running


def connect(name: str, version: int = V311, will: Will | None = None, keep_alive_s: int = 0, clean: bool = True) -> bytes:
    return encode(
        Connect(version, name, clean, keep_alive_s, will, None, None, NONE if version == V311 else Properties()), version
    )


def client(node: SharedNode, name: str = "bad", version: int = V311) -> PeerStream:
    stream = node.connect("mqtt")
    stream.send(connect(name, version))
    node.run(5)
    return stream


def many(packets: list[Packet], version: int = V311) -> bytes:
    return b"".join(encode(packet, version) for packet in packets)


def publish(topic: bytes, body: bytes = b"x", qos: int = 0, packet_id: int = 0, retain: bool = False) -> Publish:
    return Publish(topic, body, qos, retain, False, packet_id, NONE)


def carry(node: SharedNode, turns: int = 60, held: int = SMALL) -> None:
    """Let the attack happen: no turn too long, no neighbour kept waiting, no more than `held` bytes of growth."""
    load = node.run(turns)
    load.check()
    assert load.grown_bytes <= held, load


def test_a_flood_of_connects_that_are_never_completed(node: SharedNode) -> None:
    for number in range(1_000):
        node.connect("mqtt").send(connect(f"half-{number}")[:9])
    carry(node, held=32 * SMALL // 8)
    node.idle(11)
    assert node.parts.sessions.attached == 2


def test_a_flood_of_connects_in_one_connection(node: SharedNode) -> None:
    stream = node.connect("mqtt")
    stream.send(connect("again") * 5_000)
    carry(node)
    assert stream.ended or stream.closed


def test_connections_that_say_nothing(node: SharedNode) -> None:
    streams = [node.connect("mqtt") for _ in range(500)]
    carry(node)
    node.idle(13)
    assert all(stream.closed for stream in streams)


def test_sessions_that_come_and_go(node: SharedNode) -> None:
    for round_ in range(20):
        for number in range(50):
            stream = node.connect("mqtt")
            stream.send(connect(f"churn-{round_}-{number}") + encode(Subscribe(1, [(f"c/{number}", 1)]), V311))
            stream.hang_up(reset=number % 2 == 0)
        carry(node, 10)
    carry(node)
    assert node.parts.sessions.attached == 2


def test_clients_that_take_over_one_session_again_and_again(node: SharedNode) -> None:
    for _ in range(10):
        for _ in range(50):
            node.connect("mqtt").send(connect("same", clean=False))
        carry(node, 10)
    assert node.parts.sessions.attached == 3


def test_a_packet_that_arrives_byte_by_byte(node: SharedNode) -> None:
    stream = client(node)
    for byte in encode(publish(b"a/b", b"x" * 60), V311):
        stream.send(bytes((byte,)))
        carry(node, 5)


def test_many_packets_that_never_end(node: SharedNode) -> None:
    streams = [client(node, f"long-{number}") for number in range(5)]
    for stream in streams:
        stream.send(b"\x30" + b"\xff\xff\xff\x7f" + bytes(1_000))
    carry(node)
    assert all(stream.ended or stream.closed for stream in streams)


def test_a_flood_of_pings_that_is_not_read(node: SharedNode) -> None:
    stream = client(node)
    stream.reads = False
    stream.send(encode(Ping(12), V311) * 200_000)
    carry(node, held=2 * SMALL)
    if not in_use():  # virtual time passes by calls, and those of compiled functions are not counted
        assert stream.arriving > 0


def test_a_flood_of_small_messages(node: SharedNode) -> None:
    stream = client(node)
    stream.send(encode(publish(b"flood/a"), V311) * 5_000)
    carry(node, 40)


def test_messages_to_topics_that_are_created_for_them(node: SharedNode) -> None:
    stream = client(node)
    stream.send(many([publish(f"made{number}/x".encode()) for number in range(100)]))
    carry(node, 40, held=2 * SMALL)


def test_subscribing_and_unsubscribing_again_and_again(node: SharedNode) -> None:
    stream = client(node)
    stream.send(many([Subscribe(1, [("churn/+/x", 1)]), Unsubscribe(2, ["churn/+/x"])]) * 1_000)
    carry(node, 60)


def test_filters_as_long_and_as_deep_as_they_may_be(node: SharedNode) -> None:
    stream = client(node)
    deep = "/".join(["+"] * 127)
    stream.send(many([Subscribe(1, [(f"{number}/{deep}"[:4_096], 1)]) for number in range(300)]))
    carry(node, 60)
    other = client(node, "publisher")
    other.send(encode(publish(b"/".join([b"1"] * 128)), V311) * 200)
    carry(node, 60)


def test_a_filter_above_the_limit_ends_the_connection(node: SharedNode) -> None:
    stream = client(node)
    stream.send(encode(Subscribe(1, [("x" * 60_000, 1)]), V311) * 20)
    carry(node)


def test_a_flood_of_retained_values(node: SharedNode) -> None:
    stream = client(node)
    stream.send(many([publish(f"kept/{number}".encode(), b"v" * 100, retain=True) for number in range(3_000)]))
    carry(node, 80, held=2 * SMALL)
    reader = client(node, "reader")
    reader.send(encode(Subscribe(1, [("kept/#", 1)]), V311))
    carry(node, 60, held=2 * SMALL)


def test_packet_identifiers_of_qos_2_that_are_never_released(node: SharedNode) -> None:
    stream = client(node)
    stream.send(many([publish(b"two/x", qos=2, packet_id=number) for number in range(1, 3_000)]))
    carry(node, 60, held=2 * SMALL)


def test_releases_and_acknowledgements_of_nothing(node: SharedNode) -> None:
    stream = client(node)
    for kind in (PUBACK, PUBREC, PUBREL):
        stream.send(many([Ack(kind, number) for number in range(1, 5_000)]))
    carry(node, 60)


def test_topic_aliases_that_change_with_each_message(node: SharedNode) -> None:
    stream = client(node, "alias", V5)
    packets: list[Packet] = []
    for number in range(3_000):
        about = Properties()
        about.numbers[TOPIC_ALIAS] = number % 64 + 1
        packets.append(Publish(f"alias/{number}".encode(), b"x", 0, False, False, 0, about))
    stream.send(many(packets, V5))
    carry(node, 60)


def test_wills_of_clients_that_vanish_together(node: SharedNode) -> None:
    streams = []
    for number in range(200):
        stream = node.connect("mqtt")
        stream.send(connect(f"will-{number}", will=Will("will/x", b"w" * 1_000, 1, False, NONE)))
        streams.append(stream)
    carry(node, 20)
    for stream in streams:
        stream.hang_up(reset=True)
    carry(node, 60)


def test_a_keep_alive_of_one_second_ends_a_client_that_only_dribbles(node: SharedNode) -> None:
    stream = node.connect("mqtt")
    stream.send(connect("dribble", keep_alive_s=1))
    node.run(5)
    packet = encode(publish(b"a/b", b"x" * 100), V311)
    for at in range(20):
        stream.send(packet[at : at + 1])
        node.idle(0.1)
    assert stream.ended or stream.closed


def test_a_subscriber_that_never_acknowledges(node: SharedNode) -> None:
    silent = client(node, "silent")
    silent.send(encode(Subscribe(1, [("s/#", 1)]), V311))
    node.run(5)
    sender = client(node, "sender-2")
    sender.send(many([publish(b"s/x", b"y" * 500, qos=1, packet_id=number % 60_000 + 1) for number in range(3_000)]))
    carry(node, 80, held=2 * SMALL)


def test_packets_of_a_thousand_filters(node: SharedNode) -> None:
    stream = client(node)
    for packet in (Subscribe(1, [(f"s/{number}/+/#", 1) for number in range(1_000)]),
                   Unsubscribe(2, [f"s/{number}/+/#" for number in range(1_000)])):  # fmt: skip
        stream.send(encode(packet, V311))
        carry(node, 20)
    assert not stream.ended


@pytest.mark.parametrize("packet", [Subscribe(1, [("a/b", 0)] * 20_000), Unsubscribe(1, ["a/b"] * 20_000)])
def test_a_packet_of_more_filters_than_a_session_may_have_ends_the_connection(
    node: SharedNode, packet: Subscribe | Unsubscribe
) -> None:
    stream = client(node)
    stream.send(encode(packet, V311))
    carry(node, 20)
    assert stream.ended or stream.closed


@pytest.mark.parametrize("pattern", ["$share/group-{}/s/{}", "$share/group-{}/+/{}/#"])
def test_hundreds_of_shared_subscriptions_in_one_packet(node: SharedNode, pattern: str) -> None:
    stream = client(node)
    taken = stream.taken
    stream.send(encode(Subscribe(1, [(pattern.format(number, number), 1) for number in range(200)]), V311))
    for _ in range(200):  # compiled, turns are short: 50 times two syncs of a millisecond take hundreds of them
        if stream.taken > taken:
            break
        carry(node, 20)
    assert stream.taken - taken == 2 + 1 + 2 + 200  # SUBACK: fixed header, packet identifier, a code for each filter


def test_a_session_that_is_kept_is_stored_once_for_all_its_changes_of_a_turn(node: SharedNode) -> None:
    stream = node.connect("mqtt")
    stream.send(connect("kept", clean=False))
    for _ in range(20):  # CONNACK waits for the store
        if stream.taken:
            break
        node.run(5)
    before, taken = sum(len(each.data) for each in node.disk.files.values()), stream.taken
    stream.send(many([Subscribe(1, [(f"s/{number}/+/#", 1)]) for number in range(500)]))
    for _ in range(40):
        if stream.taken - taken == 500 * 5:
            break
        carry(node, 20)
    assert stream.taken - taken == 500 * 5
    assert sum(len(each.data) for each in node.disk.files.values()) - before < 500 * 500 * 10


def test_hundreds_of_topics_made_for_a_burst(node: SharedNode) -> None:
    stream = client(node)
    stream.send(many([publish(f"burst{number}/x".encode(), qos=1, packet_id=number + 1) for number in range(1_000)]))
    taken = stream.taken
    for _ in range(40):
        carry(node, 20, held=2 * SMALL)
        if stream.taken - taken == 1_000 * 4:
            break
    assert stream.taken - taken == 1_000 * 4
    assert node.parts.store.metadata.topic("burst999") is not None


def test_floods_whose_connections_break(node: SharedNode) -> None:
    """What was read and waits is handled in slices, as if the sockets were open."""
    streams = [client(node, f"bad-{number}") for number in range(2)]
    for stream in streams:
        stream.send(many([publish(b"flood/a")]) * 6_000)
    node.run(3).check()
    for stream in streams:
        stream.hang_up(reset=True)
    carry(node)


def test_subscribers_that_never_read_hold_one_bound_together(node: SharedNode) -> None:
    streams = [client(node, f"bad-{number}") for number in range(60)]
    for stream in streams:
        stream.send(encode(Subscribe(1, [("flood/#", 0)]), V311))
    node.run(5)
    for stream in streams:
        stream.reads = False
    sender = client(node, "floods")
    sender.send(encode(publish(b"flood/a", bytes(100_000)), V311) * 100)
    held: list[int] = []
    for _ in range(30):
        node.run(5).check()
        held.append(node.parts.unread.bytes_held)
    assert not sender.arriving, "all of it was taken"
    assert 0 < max(held) <= SHARED_BYTES_MAX, "who leaves most unread loses messages, or its connections"
