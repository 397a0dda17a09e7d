"""How a connection answers invalid, late and excessive input: MQTT 5, 4.13, and the reason codes of each version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import limits
from domain.command import Disconnected
from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from protocols.mqtt import property as props
from protocols.mqtt import status
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Ping, encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Subscribe
from store.settings import StoreSettings
from tests.protocols.mqtt.stage import PEER, Broker, Client
from tests.protocols.mqtt.vectors import CONNECTS, OTHERS, PUBLISHES, Vector


def goodbye(client: Client) -> int | None:
    """Reason code of the DISCONNECT received, None for none."""
    codes = [packet.code for packet in client.take() if isinstance(packet, Disconnect)]
    return codes[0] if codes else None


BAD_CONNECTS = [vector for vector in CONNECTS if isinstance(vector.expected, int)]


@pytest.mark.parametrize("vector", BAD_CONNECTS, ids=lambda vector: vector.name)
def test_a_bad_first_packet_is_refused_in_the_words_of_its_version(broker: Broker, vector: Vector) -> None:
    client = broker.client(5 if b"\x05" <= vector.data[8:9] < b"\x80" else 4)
    client.send(vector.data)
    assert client.gone
    assert client.reason in status.CLOSED
    answers = client.take()
    if vector.expected == -1 or (vector.data[8] == 4 and vector.expected == 0x81):
        assert answers == []
    else:
        (answer,) = answers
        assert isinstance(answer, Connack)
        assert answer.code == vector.expected


LATER = [vector for vector in PUBLISHES + OTHERS if isinstance(vector.expected, int)]


@pytest.mark.parametrize("vector", LATER, ids=lambda vector: vector.name)
def test_a_bad_packet_later_ends_the_connection(broker: Broker, vector: Vector) -> None:
    listener = broker.joined("listener", 4, "wills/c")
    client = broker.client(vector.version)
    client.connect("c", will=Will("wills/c", b"", 1, False, NONE))
    client.send(vector.data)
    assert client.gone
    assert client.reason in status.CLOSED
    assert goodbye(client) == (vector.expected if vector.version == 5 else None)
    assert len(listener.messages()) == 1


TOPICS: list[tuple[bytes, int]] = [
    (b"a/+", 0x90), (b"#", 0x90), (b"a\x00b", 0x81), (b"\xff", 0x81), (b"\xed\xa0\x80", 0x81), (b"a\x01b", 0x90),
    (b"", 0x82), (b"x" * 4097, 0x90), (b"/" * 128, 0x90),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "code"), TOPICS, ids=[repr(topic[:8]) for topic, _ in TOPICS])
@pytest.mark.parametrize("version", [4, 5])
def test_a_bad_topic_name_ends_the_connection(broker: Broker, topic: bytes, code: int, version: int) -> None:
    client = broker.joined("c", version)
    client.put(Publish(topic, b"x", 1, False, False, 1, NONE))
    assert client.gone
    assert goodbye(client) == (code if version == 5 else None)


@pytest.mark.parametrize("topic", ["/x", "$x/y", "größe/x", "%RETRY%g/x", "TBW102/x", "a b", "$share/g/t", "x" * 200])
def test_odd_but_legal_topic_names_are_kept_exactly(broker: Broker, topic: str) -> None:
    listener = broker.joined("listener", 4, topic if not topic.startswith("$share") else "$share2/#")
    client = broker.joined("c")
    client.publish(topic)
    assert [ack.kind for ack in client.take() if isinstance(ack, Ack)] == [4]
    if not topic.startswith("$share"):
        assert [message.topic.decode() for message in listener.messages()] == [topic]


def test_sys_topics_are_not_for_clients(broker: Broker) -> None:
    client = broker.joined("c", 5)
    client.publish("$SYS/x", qos=0)
    client.publish("$SYS/x", qos=1, packet_id=1)
    client.publish("$SYS/x", qos=2, packet_id=2)
    acks = [(ack.kind, ack.packet_id, ack.code) for ack in client.take() if isinstance(ack, Ack)]
    assert acks == [(4, 1, 0x87), (5, 2, 0x87)]
    assert broker.adapter.lost == {"refused": 1, "slow-reader": 0, "too-large": 0}
    old = broker.joined("c", 4)
    assert client.gone  # the same client id
    old.publish("$SYS/x", qos=1)
    assert (old.gone, old.reason) == (True, "not-allowed")


def test_receive_maximum_of_the_server() -> None:
    broker = Broker(receive_maximum=3)
    client = broker.joined("c", 5)
    client.put(*(Publish(b"t", b"x", 2, False, False, number, NONE) for number in range(1, 4)))
    assert not client.gone
    client.take()
    client.put(Publish(b"t", b"x", 2, False, False, 4, NONE))
    assert goodbye(client) == 0x93
    assert client.reason == "receive-maximum"


def test_payload_that_is_not_the_text_it_claims_to_be(broker: Broker) -> None:
    client = broker.joined("c", 5)
    claim = Properties()
    claim.numbers[props.PAYLOAD_FORMAT] = 1
    client.publish("t", b"\xff", properties=claim)
    assert [(ack.kind, ack.code) for ack in client.take() if isinstance(ack, Ack)] == [(4, 0x99)]
    assert not client.gone


def test_properties_beyond_what_a_message_can_hold(broker: Broker) -> None:
    client = broker.joined("c", 5)
    given = Properties()
    given.user = [("k", "v" * 40_000)]
    client.publish("t", properties=given)
    assert [(ack.kind, ack.code) for ack in client.take() if isinstance(ack, Ack)] == [(4, 0x97)]


@pytest.mark.parametrize("path", ["t", "t/" + "x" * 4_000])
def test_properties_topic_name_and_client_id_have_one_bound_together(broker: Broker, path: str) -> None:
    """What is refused takes no other message of the same read with it."""
    client = broker.joined("c", 5)
    codes: list[int] = []
    for more in range(0, 31_000, 250):
        given = Properties()
        given.user = [("k", "v" * ((more + 2_000) // 2))]
        client.publish(path, properties=given)
        codes += [ack.code for ack in client.take() if isinstance(ack, Ack)]
    assert set(codes) == {0, 0x97}
    assert codes == sorted(codes)
    found: list[ReadResult | Failure] = []
    for queue_id in range(8):
        broker.store.log.read(ReadRequest("t", queue_id, 0, 1_000, 1 << 30), found.append)
    broker.clock.run_for(10)
    sizes = [len(Record(data).properties) for result in found if isinstance(result, ReadResult) for data in result.records]
    assert len(sizes) == codes.count(0)
    assert limits.CLIENT_PROPERTIES_BYTES_MAX - 600 < max(sizes) <= limits.CLIENT_PROPERTIES_BYTES_MAX + 64


@pytest.mark.parametrize("accept", [False, True])
def test_a_refused_publish_below_5_closes_unless_told_otherwise(accept: bool) -> None:
    broker = Broker(accept_refused_publish=accept)
    client = broker.joined("c")
    broker.disk.free = 0.0
    broker.disk.capacity = 1
    client.publish("t", packet_id=1)
    broker.run(StoreSettings().flush_timeout_ms + 1_000)  # what finds the disk full waits for room until its answer is due
    acks = [packet for packet in client.take() if isinstance(packet, Ack)]
    assert (client.gone, len(acks)) == ((False, 1) if accept else (True, 0))
    if not accept:
        assert client.reason == "refused-publish"


def test_a_client_id_is_bounded(broker: Broker) -> None:
    assert broker.client(5).connect("x" * 2_000).code == 0x85


def test_an_authentication_method_is_refused() -> None:
    method = Properties()
    method.texts[props.AUTH_METHOD] = "SCRAM-SHA-256"
    assert Broker().client(5).connect("c", properties=method).code == 0x8C


def test_a_connection_that_says_nothing_ends_after_ten_seconds_in_all(broker: Broker) -> None:
    client = broker.client()
    client.poll()
    for byte in encode(Connect(4, "c", True, 0, None, None, None, NONE), 4)[:9]:
        broker.run(1_000)
        client.send(bytes((byte,)))
    assert not client.gone
    broker.run(1_100)
    assert (client.gone, client.reason, client.take()) == (True, "no-connect", [])


def test_keep_alive_counts_whole_packets(broker: Broker) -> None:
    """3.1.2.10: one and a half times the keep-alive; half a packet does not count."""
    client = broker.joined("c", 5, keep_alive_s=10)
    for _ in range(3):
        broker.run(14_000)
        client.put(Ping())
    assert not client.gone
    broker.run(14_000)
    client.send(b"\x30\x7f")
    assert not client.gone
    broker.run(2_000)
    assert (client.gone, client.reason, goodbye(client)) == (True, "keep-alive", 0x8D)


def test_half_a_packet_without_keep_alive_ends_after_ten_seconds(broker: Broker) -> None:
    client = broker.joined("c", 5)
    broker.run(60_000)
    client.send(b"\x30\x7f")
    broker.run(9_000)
    assert not client.gone
    broker.run(1_500)
    assert (client.gone, client.reason) == (True, "frame-deadline")


def test_server_keep_alive_is_told_and_kept() -> None:
    broker = Broker(keep_alive_max_s=60)
    client = broker.client(5)
    answer = client.connect("c", keep_alive_s=120)
    assert answer.properties.numbers[props.SERVER_KEEP_ALIVE] == 60
    broker.run(91_000)
    assert client.gone


def test_reading_stops_while_too_much_waits_for_the_store() -> None:
    broker = Broker(unanswered_bytes_max=1_000)
    client = broker.joined("c")
    broker.disk.hold_syncs = True
    client.publish("t", bytes(2_000))
    assert not client.connection.reading
    broker.disk.release()
    broker.run(100)
    assert client.connection.reading
    assert [ack.kind for ack in client.take() if isinstance(ack, Ack)] == [4]


def test_what_follows_connect_in_the_same_bytes_is_answered_after_connack(broker: Broker) -> None:
    client = broker.client(5)
    client.put(
        Connect(5, "c", False, 0, None, None, None, NONE),
        Subscribe(1, [("t", 1)]),
        Publish(b"t", b"x", 1, False, False, 1, NONE),
        Ping(),
    )
    kinds = [type(packet).__name__ for packet in client.take()]
    assert kinds[0] == "Connack"
    assert sorted(kinds[1:]) == ["Ack", "Ping", "Publish", "Suback"]


def test_every_error_code_has_its_words() -> None:
    assert set(status.WORDS) == set(ErrorCode)
    for words in status.WORDS.values():
        assert words.publish in {0x80, 0x83, 0x87, 0x90, 0x97, 0x99}
        assert words.subscribe in status.SUBACK_CODES
        assert words.connect in status.CONNACK_CODES
        assert 1 <= words.return_code <= 5


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([0, 4, 5]), st.lists(st.binary(max_size=30), max_size=6))
def test_no_bytes_raise_out_of_a_connection(version: int, pieces: list[bytes]) -> None:
    broker = Broker()
    connection = broker.adapter.connect(PEER, 0)
    client = broker.client(version or 4)
    if version:
        client.connect("c")
        connection = client.connection
    for piece in pieces:
        for command in connection.receive(piece, 0):
            if isinstance(command, Disconnected):
                assert command.reason in status.CLOSED
                assert connection.closed
        connection.outgoing()
        connection.deadline()


def test_a_node_that_stops_says_so(broker: Broker) -> None:
    """4.13: DISCONNECT with 0x8B in 5.0; below 5.0, and before CONNECT, there is no packet for it."""
    for version, words in ((5, [0x8B]), (4, [])):
        client = broker.joined("c", version)
        commands = client.connection.drain(0)
        assert commands == [Disconnected("shutting-down")]
        client.poll()
        assert [packet.code for packet in client.take() if isinstance(packet, Disconnect)] == words
        assert client.gone
        assert client.connection.drain(0) == ()
    silent = broker.client(5)
    assert silent.connection.drain(0) == [Disconnected("shutting-down")]
    assert silent.connection.outgoing() == []
