"""Clients that follow the rules of QoS 1 and 2, lost connections and kills of the server, in random order.

Invariants: no acknowledged message is lost, no QoS 2 message is delivered twice, each topic keeps its order.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from domain.limits import MILLISECOND_NS
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Packet
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from tests.late_store import LATENESS, Lateness
from tests.protocols.mqtt.stage import Broker, Client, away, bodies

TOPICS = (b"t/a", b"t/b", b"u/a")


class Sender:
    """Publishes numbers, each until it is completely acknowledged; repeats unacknowledged ones in order after a reconnect."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client: Client | None = None
        self.open: dict[int, tuple[Publish, bool]] = {}
        self.number = 0
        self.acknowledged: list[tuple[bytes, int, int]] = []

    def connect(self) -> None:
        self.client = self.broker.client(4)
        self.client.connect("sender", clean=False)
        again: list[Packet] = []
        for packet_id, (packet, released) in self.open.items():
            packet.dup = True
            again.append(Ack(6, packet_id) if released else packet)
        self.client.put(*again, wait=False)

    def publish(self, topic: bytes, qos: int) -> None:
        if self.client is None or self.client.gone or len(self.open) > 50:
            return
        packet_id = next(n for n in range(1, 100) if n not in self.open)
        packet = Publish(topic, b"%d" % self.number, qos, False, False, packet_id, NONE)
        self.number += 1
        self.open[packet_id] = (packet, False)
        self.client.put(packet, wait=False)

    def poll(self) -> None:
        if self.client is None:
            return
        for ack in self.client.take():
            if not isinstance(ack, Ack) or ack.packet_id not in self.open:
                continue
            packet, _ = self.open[ack.packet_id]
            if ack.kind == 5:
                self.open[ack.packet_id] = (packet, True)
                self.client.put(Ack(6, ack.packet_id), wait=False)
            elif ack.kind in (4, 7):
                del self.open[ack.packet_id]
                self.acknowledged.append((packet.topic, int(packet.body), packet.qos))


class Listener:
    """Receives deliveries, acknowledges them now or later, and detects repeated QoS 2 messages by packet identifier."""

    def __init__(self, broker: Broker, pick: random.Random) -> None:
        self.broker = broker
        self.pick = pick
        self.client: Client | None = None
        self.known: set[int] = set()
        self.owed: list[Ack] = []
        self.heard: list[tuple[bytes, int, int]] = []

    def connect(self) -> None:
        self.owed.clear()
        self.client = self.broker.client(5)
        wanted = Properties()
        wanted.numbers = {props.SESSION_EXPIRY: 10_000, props.RECEIVE_MAXIMUM: self.pick.choice((1, 3, 20, 500))}
        assert self.client.connect("listener", clean=False, properties=wanted).present

    def poll(self) -> None:
        if self.client is None:
            return
        for packet in self.client.take():
            if isinstance(packet, Publish):
                if packet.qos == 2:
                    self.owed.append(Ack(5, packet.packet_id))
                    if packet.packet_id in self.known:
                        continue
                    self.known.add(packet.packet_id)
                else:
                    self.owed.append(Ack(4, packet.packet_id))
                self.heard.append((packet.topic, int(packet.body), packet.qos))
            elif isinstance(packet, Ack) and packet.kind == 6:
                self.known.discard(packet.packet_id)
                self.owed.append(Ack(7, packet.packet_id))

    def answer(self, most: int) -> None:
        if self.client is None or self.client.gone:
            return
        now, self.owed = self.owed[:most], self.owed[most:]
        self.client.put(*now, wait=False)


@pytest.mark.usefixtures("near_and_late")
@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_and_nothing_comes_twice(broker: Broker, seed: int) -> None:
    LATENESS.seed, LATENESS.breaks = seed, 0.02
    pick = random.Random(seed)
    first = broker.joined("listener", 5, clean=False, expiry_s=10_000)
    for pattern in ("t/#", "+/a"):
        assert first.subscribe(pattern, 2) == 2
    first.drop()
    sender, listener = Sender(broker), Listener(broker, pick)
    for _ in range(400):
        step = pick.random()
        if step < 0.5:
            sender.publish(pick.choice(TOPICS), pick.choice((1, 2)))
        elif step < 0.8:
            listener.answer(pick.randrange(6))
        elif step < 0.84:
            sender.client.drop() if sender.client else None
            sender.connect()
        elif step < 0.88:
            listener.client.drop() if listener.client else None
            listener.connect()
        elif step < 0.90 and listener.client is not None:
            listener.client.drop()
        elif step < 0.92:
            broker.kill()
        broker.run(pick.choice((0, 0.5, 1, 3, 250)))
        sender.poll()
        listener.poll()
    for each in (sender, listener):
        if each.client is None or each.client.gone:
            each.connect()
    for _ in range(400):
        broker.run(5)
        sender.poll()
        listener.poll()
        listener.answer(100)
    broker.run(1_000)
    assert sender.open == {}
    assert len(sender.acknowledged) > 30, "the run did not exercise anything"
    heard = Counter(listener.heard)
    assert set(sender.acknowledged) <= set(heard), "something acknowledged was lost"
    assert [what for what, times in heard.items() if times > 1 and what[2] == 2] == []
    for topic in TOPICS:
        for qos in (1, 2):
            numbers = list(dict.fromkeys(number for where, number, level in listener.heard if (where, level) == (topic, qos)))
            assert numbers == sorted(numbers), f"{topic!r} at QoS {qos} is out of order"


@pytest.mark.usefixtures("near_again")
def test_what_arrives_while_a_session_catches_up_is_delivered(broker: Broker) -> None:
    LATENESS.reset(Lateness(True, 1, 2 * MILLISECOND_NS))
    pick = random.Random(1)
    away(broker)
    sender = broker.joined("sender")
    for number in range(0, 400, 2):
        sender.publish("t/a", b"%d" % number)
        client = broker.client()
        client.put(Connect(4, "away", False, 0, None, None, None, NONE), wait=False)
        broker.run(pick.uniform(0, 25))
        sender.publish("t/a", b"%d" % (number + 1), packet_id=2)
        broker.run(100)
        assert bodies(client.messages()) == [b"%d" % number, b"%d" % (number + 1)]
        client.leave()
