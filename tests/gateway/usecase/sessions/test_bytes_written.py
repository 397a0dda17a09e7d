"""Bytes written to the log for bytes received: a command of a client writes what it changes, however much the session has."""

from __future__ import annotations

from typing import Final

import pytest

from domain.admin.topic import PutTopic
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Packet, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from tests.connection_driver import StrictDriver
from tests.protocols.mqtt.stage import Broker, Client, bodies, with_number

COMMAND_BYTES: Final = 4_096
"""What one command may cause to be written, whatever its size."""
BYTES_FOR_A_BYTE: Final = 4
"""What each of its bytes may cause besides."""
LONG: Final = 3_900
FILTERS: Final = 1_000


class Meter:
    """Bytes of packets that a client has sent, and bytes appended to the log, since the last look."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.received = self.commands = 0
        self._written = self._log()

    def _log(self) -> int:
        return sum(size for name, size in self._broker.disk.writes if name.startswith("log/"))

    def put(self, client: Client, *packets: Packet, wait: bool = True) -> None:
        """Send packets, and count them."""
        self.received += sum(len(encode(packet, client.version)) for packet in packets)
        self.commands += len(packets)
        client.put(*packets, wait=wait)

    def poll(self) -> tuple[int, int]:
        """(bytes written, bytes allowed) since the last look; what is stored a little later is waited for."""
        self._broker.run(1_000)
        written, self._written = self._log() - self._written, self._log()
        allowed = COMMAND_BYTES * self.commands + BYTES_FOR_A_BYTE * self.received
        print(f"{self.commands} commands, {self.received:,} bytes received, {written:,} written, {allowed:,} allowed")
        self.received = self.commands = 0
        return written, allowed

    def check(self) -> int:
        """No more was written than is allowed. Returns the bytes written."""
        written, allowed = self.poll()
        assert written <= allowed
        return written


def names(count: int, size: int = LONG) -> list[str]:
    return [f"q/{number:04}/".ljust(size, "x") for number in range(count)]


def connect(client: Client, will: Will | None = None) -> Connect:
    return Connect(client.version, "rich", False, 0, will, None, None, with_number(props.SESSION_EXPIRY, 1_000))


def attach(broker: Broker, meter: Meter, will: Will | None = None) -> tuple[Client, bool]:
    """(a client of the session, whether it was resumed)."""
    client = broker.client(5)
    meter.put(client, connect(client, will=will))
    answer = client.take()[0]
    assert isinstance(answer, Connack)
    return client, answer.present


class Rich:
    """A session with FILTERS filters of LONG bytes, whose client is connected."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.broker.publish("orders", b"", b"")
        self.meter = Meter(self.broker)
        self.client, _ = attach(self.broker, self.meter)
        self.names = names(FILTERS)
        for first in range(0, FILTERS, 125):
            self.subscribe([(name, 0) for name in self.names[first : first + 125]])
        self.made = self.meter.poll()

    def subscribe(self, wanted: list[tuple[str, int]], packet_id: int = 1) -> None:
        self.meter.put(self.client, Subscribe(packet_id, wanted, NONE))
        (answer,) = self.client.take()
        assert isinstance(answer, Suback)
        assert list(answer.codes) == [level for _, level in wanted]

    def reconnect(self, will: Will | None = None) -> None:
        self.client, present = attach(self.broker, self.meter, will)
        assert present

    def leave(self) -> None:
        self.meter.put(self.client, Disconnect(0, NONE))


@pytest.fixture
def rich() -> Rich:
    return Rich()


def test_a_session_writes_each_filter_once(rich: Rich) -> None:
    written, allowed = rich.made
    assert written <= allowed / 2


def test_a_subscription_that_is_repeated_writes_nothing(rich: Rich) -> None:
    rich.subscribe([("orders/a", 0)])
    rich.meter.check()
    for number in range(50):
        rich.subscribe([("orders/a", 0)], number + 1)
    rich.subscribe([(name, 0) for name in rich.names[:10]])
    assert rich.meter.check() == 0


def test_a_subscription_whose_qos_changes_writes_itself(rich: Rich) -> None:
    for number in range(50):
        rich.subscribe([("orders/a", number % 2)], number + 1)
    rich.meter.check()
    rich.subscribe([(rich.names[7], 1)])
    rich.subscribe([(rich.names[7], 0)])
    rich.meter.check()


def test_a_reconnect_writes_no_filters(rich: Rich) -> None:
    for _ in range(20):
        rich.leave()
        rich.reconnect()
    rich.meter.check()
    rich.client.drop()
    rich.reconnect()
    rich.meter.check()


def test_an_unsubscribe_of_nothing_writes_nothing(rich: Rich) -> None:
    for number in range(50):
        rich.meter.put(rich.client, Unsubscribe(number + 1, [f"not/there{number}"], NONE))
    assert all(isinstance(packet, Suback) and packet.un and list(packet.codes) == [0x11] for packet in rich.client.take())
    assert rich.meter.check() == 0


def test_an_unsubscribe_writes_its_filter_only(rich: Rich) -> None:
    for _ in range(20):
        rich.subscribe([("orders/b", 1)])
        rich.meter.put(rich.client, Unsubscribe(1, ["orders/b"], NONE))
        (answer,) = rich.client.take()
        assert isinstance(answer, Suback)
        assert list(answer.codes) == [0]
    rich.meter.check()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_writes_itself(rich: Rich, qos: int) -> None:
    for number in range(50):
        rich.meter.put(rich.client, Publish(b"orders/x", b"x", qos, False, False, 100 + number, NONE))
        if qos == 2:
            rich.meter.put(rich.client, Ack(6, 100 + number))
    rich.client.take()
    rich.meter.check()


def test_a_ping_writes_nothing(rich: Rich) -> None:
    rich.client.send(b"\xc0\x00" * 50)
    rich.client.take()
    assert rich.meter.check() == 0


def test_a_will_that_is_the_same_is_written_once(rich: Rich) -> None:
    """3.1.2.5: the will stays when the client is back before its delay has passed. Then nothing of it is written."""
    will = Will("orders/will", bytes(60_000), 1, False, with_number(props.WILL_DELAY, 500))
    rich.leave()
    rich.reconnect(will)
    rich.meter.check()
    written = []
    for _ in range(5):
        rich.client.drop()
        rich.reconnect(will)
        written.append(rich.meter.check())
    assert max(written) < COMMAND_BYTES
    rich.leave()
    rich.reconnect()
    rich.meter.check()


def test_filters_one_at_a_time_write_each_once() -> None:
    broker = Broker()
    meter = Meter(broker)
    client, _ = attach(broker, meter)
    for number, name in enumerate(names(300)):
        meter.put(client, Subscribe(number + 1, [(name, 0)], NONE))
    meter.check()
    for number, name in enumerate(names(300)):
        meter.put(client, Unsubscribe(number + 1, [name], NONE))
    meter.check()


@pytest.mark.parametrize("client_id", ["c", "c" * 1_000])
def test_many_short_filters_in_one_packet_write_each_once(client_id: str) -> None:
    """What one filter costs has a bound, also with the longest client id."""
    broker = Broker()
    meter = Meter(broker)
    client = broker.client(5)
    meter.put(client, Connect(5, client_id, False, 0, None, None, None, with_number(props.SESSION_EXPIRY, 1_000)))
    wanted = [f"{number:03x}" for number in range(1_000)]
    meter.poll()
    meter.put(client, Subscribe(1, [(name, 1) for name in wanted], NONE))
    written, _ = meter.poll()
    assert written <= COMMAND_BYTES + 100 * len(wanted)
    meter.put(client, Unsubscribe(2, wanted, NONE))
    written, _ = meter.poll()
    assert written <= COMMAND_BYTES + 100 * len(wanted)


@pytest.mark.parametrize("qos", [1, 2])
def test_an_acknowledgement_writes_its_own_delivery_and_not_the_window(qos: int) -> None:
    """A window of 1,024 retained messages, whose topic names are stored with it: each step of one of them writes no other."""
    broker = Broker()
    sender = broker.client(5)
    sender.connect("sender", keep_alive_s=0)
    for number, name in enumerate(names(500)):
        sender.publish(name, b"v", qos=1, packet_id=number + 1, retain=True)
    client = broker.client(5)
    meter = Meter(broker)
    properties = with_number(props.SESSION_EXPIRY, 1_000)
    properties.numbers[props.RECEIVE_MAXIMUM] = 1_000
    meter.put(client, Connect(5, "rich", False, 0, None, None, None, properties))
    meter.put(client, Subscribe(1, [("q/#", qos)], NONE))
    broker.run(3_000)
    got = [packet for packet in client.take() if isinstance(packet, Publish)]
    assert len(got) == 500
    meter.poll()
    if qos == 1:
        for packet in got[:100]:
            meter.put(client, Ack(4, packet.packet_id))
            broker.run(300)
        meter.check()
        return
    sender.publish("q/x", b"v", qos=1)
    (level_one,) = [packet for packet in client.take() if isinstance(packet, Publish)]
    meter.put(client, Ack(4, level_one.packet_id))
    for kind in (5, 7):
        for packet in got[:100]:
            meter.put(client, Ack(kind, packet.packet_id))
        meter.check()


def test_a_position_writes_its_own_queues_and_not_the_whole_topic() -> None:
    broker = Broker()
    broker.handler.handle(ClientConnection("remoting", StrictDriver()), PutTopic(1, Topic("wide", 8_192, 8_192)))
    broker.run()
    client = broker.client(5)
    client.connect("reader", clean=False, expiry_s=1_000)
    client.subscribe("wide/#", 1)
    meter = Meter(broker)
    for number in range(20):
        broker.publish("wide", b"x")
        assert bodies(client.messages()) == [b"x"], number
        broker.run(300)
        meter.commands += 2  # a message and its acknowledgement
    meter.check()
