"""Messages of which nobody knows in time whether they are durable: the client sends them again, and they are stored once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from domain.client.mqtt_session import SendOnce
from domain.command import Send
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.limits import MILLISECOND_NS
from domain.message.message import Message, Placed
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.store.store_ports import MessageLog, StateChange
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect, Disconnect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from tests.protocols.mqtt import stage
from tests.protocols.mqtt.stage import Broker, bodies, with_number

PUBREL = 6
SLOW_MS = 30_000
APPEND_MS = 4_000


def published(qos: int, dup: bool = False) -> Publish:
    """The message. QoS 0 has no packet identifier."""
    return Publish(b"t", b"once", qos, False, dup, 1 if qos else 0, NONE)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_slow_flush_ends_the_connection_and_the_message_is_sent_again(broker: Broker, qos: int) -> None:
    reader = broker.joined("reader", 5, "t", 0)
    client = broker.joined("c", 5, clean=False, expiry_s=3_600)
    broker.publish("t", b"the topic is there")
    reader.take()
    broker.disk.sync_ms = SLOW_MS
    client.put(published(qos))
    broker.run(SLOW_MS / 2)
    heard = client.take()
    assert [packet.code for packet in heard if isinstance(packet, Disconnect)] == [0x83]
    assert not [packet for packet in heard if isinstance(packet, Ack)], "its packet identifier is not free"
    assert client.gone
    broker.disk.sync_ms = 1
    broker.run(SLOW_MS)
    again = broker.client(5)
    assert again.connect("c", clean=False, expiry_s=3_600).present
    again.put(published(qos, dup=True))
    if qos == 2:
        again.put(Ack(PUBREL, 1, 0, NONE))
    assert [packet.code for packet in again.take() if isinstance(packet, Ack)] == [0] * qos
    broker.run(SLOW_MS)
    seen = [packet.body for packet in reader.take() if isinstance(packet, Publish)]
    assert seen == [b"once"] * (2 if qos == 1 else 1), "at QoS 2 it is stored once"


def test_a_store_that_is_lost_ends_the_connection_and_frees_no_packet_identifier() -> None:
    client = Broker().joined("c", 5, clean=False, expiry_s=3_600)
    (send,) = client.connection.receive(encode(published(2), 5), 0)
    assert isinstance(send, SendOnce)
    client.connection.answer(Refused(send.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "no answer")), 0)
    client.hear(b"".join(client.connection.outgoing()))
    assert client.only(Disconnect).code == 0x8B


def test_at_qos_0_nothing_is_sent_again_and_the_connection_stays() -> None:
    client = Broker().joined("c", 5)
    (send,) = client.connection.receive(encode(published(0), 5), 0)
    assert isinstance(send, Send)
    client.connection.answer(Refused(send.ticket, Failure(ErrorCode.STORE_UNAVAILABLE, "no answer")), 0)
    assert not client.connection.closed


class SlowLog:
    """A log whose appends take APPEND_MS, as those of a broker of Apache RocketMQ may; all else is at once, state too."""

    def __init__(self, near: MessageLog, clock: Clock) -> None:
        self._near = near
        self._clock = clock

    def append(
        self,
        messages: Sequence[Message],
        done: Callable[[list[Placed] | Failure], None] | None,
        changes: Sequence[StateChange] = (),
    ) -> None:
        due = self._clock.monotonic_ns() + APPEND_MS * MILLISECOND_NS
        self._clock.call_at(due, lambda: self._near.append(messages, done, changes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._near, name)


class SlowStore:
    """A store with such a log."""

    def __init__(self, near: MessageStore, clock: Clock) -> None:
        self.log = SlowLog(near.log, clock)
        self._near = near

    def __getattr__(self, name: str) -> Any:
        return getattr(self._near, name)


def test_a_client_that_comes_back_during_a_slow_append_sends_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session knows the packet identifier before the store does, and stays in memory until the store does too."""
    monkeypatch.setattr(stage, "reached", SlowStore)
    broker = Broker()
    reader = broker.joined("reader", 5, "t", 0)
    client = broker.joined("c", 5, clean=False, expiry_s=3_600)
    client.put(published(2))
    client.drop()
    broker.run(APPEND_MS / 2)
    again = broker.client(5)
    assert again.connect("c", clean=False, expiry_s=3_600).present
    again.put(published(2, dup=True))
    assert not again.take(), "the message is not stored yet"
    broker.run(2 * APPEND_MS)
    again.only(Ack)
    again.put(Ack(PUBREL, 1, 0, NONE))
    broker.run(APPEND_MS)
    assert bodies([packet for packet in reader.take() if isinstance(packet, Publish)]) == [b"once"]


def test_a_session_leaves_memory_behind_its_last_append(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "reached", SlowStore)
    broker = Broker()
    client = broker.joined("c", 5, clean=False, expiry_s=60)
    client.put(published(2))
    client.drop()
    broker.run(APPEND_MS + 1_000)
    again = broker.client(5)
    assert again.connect("c", clean=False, expiry_s=60).present
    again.put(published(2, dup=True))
    assert [type(packet) for packet in again.take()] == [Ack], "it was loaded, and knows the packet identifier"
    again.drop()
    broker.run(61_000)
    late = broker.client(5)
    assert not late.connect("c", clean=False, expiry_s=60).present, "its deadline was set"


@pytest.mark.parametrize("ended_by", ["clean start", "expiry"])
def test_packet_identifiers_of_an_ended_session_are_not_those_of_the_next(
    monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """The append that brings one of them ends after the session that it was for."""
    monkeypatch.setattr(stage, "reached", SlowStore)
    broker = Broker()
    reader = broker.joined("reader", 5, "t", 0)
    client = broker.joined("c", 5, clean=False, expiry_s=3_600)
    client.put(published(2))
    if ended_by == "expiry":
        client.leave(properties=with_number(props.SESSION_EXPIRY, 0))
    else:
        client.drop()
    fresh = broker.client(5)
    fresh.put(Connect(5, "c", ended_by == "clean start", 0, None, None, None, with_number(props.SESSION_EXPIRY, 3_600)))
    broker.run(APPEND_MS + 1_000)
    answer = fresh.only(Connack)
    assert not answer.present
    fresh.drop()
    broker.run(1_000)
    again = broker.client(5)
    assert again.connect("c", clean=False, expiry_s=3_600).present
    again.publish("t", b"another", 2)
    broker.run(APPEND_MS + 1_000)
    assert sorted(bodies([packet for packet in reader.take() if isinstance(packet, Publish)])) == [b"another", b"once"]
