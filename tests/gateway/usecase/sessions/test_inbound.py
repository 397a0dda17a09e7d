"""EXACTLY_ONCE messages whose store is slow: nothing is acknowledged before its promise holds, retransmissions included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.message import Message
from domain.mqtt_session import PacketIdsReleased, ReleasePacketIds, SendOnce
from domain.store_ports import StateChange
from gateway.usecase.sessions import inbound, snapshot
from gateway.usecase.sessions.inbound import InboundDeduplication
from gateway.usecase.sessions.mqtt_session import MqttSession
from tests.gateway.usecase.event_recorder import EventRecorder

pytestmark = pytest.mark.skipif(
    not str(inbound.__file__).endswith(".py"), reason="compiled modules take no stand-in for a store: HEADGATE_PURE=1 runs this"
)
LATE = Failure(ErrorCode.FLUSH_TIMEOUT, "stored, not durable yet")


class SlowStore:
    """State and sending: what is written is durable when the test says so, in its order.

    durable   keys that are
    """

    def __init__(self) -> None:
        self.durable: set[bytes] = set()
        self._written: list[Sequence[StateChange]] = []

    def submit(self, _messages: list[Message], done: Callable[[Any], None], changes: Sequence[StateChange], user: str) -> None:
        self._written.append(changes)
        done(LATE)

    def put(self, changes: Sequence[StateChange], done: Callable[[Failure | None], None]) -> None:
        self._written.append(changes)
        done(LATE)

    def get(self, space: str, key: bytes, done: Callable[[bytes | None], None]) -> None:
        assert space == snapshot.SPACE
        done(b"\x01" if key in self.durable else None)

    def flush(self) -> None:
        """Everything written becomes durable."""
        written, self._written = self._written, []
        for change in (each for changes in written for each in changes):
            if change.value is None:
                self.durable.discard(change.key)
            else:
                self.durable.add(change.key)


class Publisher(EventRecorder):
    """A client with a durable session."""

    def __init__(self) -> None:
        super().__init__("mqtt")
        self.store = SlowStore()
        self.session = MqttSession("c")
        self.session.expiry_s = 60
        self._inbound = InboundDeduplication(cast(Any, self.store), cast(Any, self.store))

    def publish(self, packet_id: int) -> Any:
        """The answer to a PUBLISH."""
        command = SendOnce(1, [Message("t", b"x", b"")], [packet_id])
        self._inbound.send_once(self.session, self.connection, command)
        return self.take()[-1]

    def release(self, packet_id: int) -> Any:
        """The answer to a PUBREL."""
        self._inbound.release(self.session, self.connection, ReleasePacketIds(2, [packet_id]))
        return self.take()[-1]


def test_a_retransmission_is_not_acknowledged_before_the_first_copy_is_durable() -> None:
    client = Publisher()
    assert client.publish(7) == Refused(1, LATE)
    again = client.publish(7)
    assert isinstance(again, Refused)
    assert again.failure.code is ErrorCode.FLUSH_TIMEOUT
    client.store.flush()
    assert client.publish(7) == Done(1)
    assert len(client.store.durable) == 1, "it was stored once"


def test_a_packet_identifier_is_not_free_before_its_mark_is_durably_gone() -> None:
    client = Publisher()
    client.publish(7)
    client.store.flush()
    assert client.release(7) == Refused(2, LATE)
    assert client.release(7) == Refused(2, LATE), "the mark is still there for a leader that comes next"
    client.store.flush()
    assert client.release(7) == PacketIdsReleased(2, [False])


def test_a_packet_identifier_that_was_never_there_is_told_so() -> None:
    client = Publisher()
    assert client.release(9) == PacketIdsReleased(2, [False])
