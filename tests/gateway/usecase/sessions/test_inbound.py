"""EXACTLY_ONCE messages whose disk is slow: nothing is acknowledged before its promise holds, retransmissions included."""

from __future__ import annotations

from typing import Any

from domain.client.mqtt_session import Attach, PacketIdsReleased, ReleasePacketIds, SendOnce
from domain.command import Command, Disconnected
from domain.errors import ErrorCode
from domain.event import Done, Refused
from domain.message.message import Message
from gateway.connection.client_connection import ClientConnection
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.world import World

TOPIC, QUEUES = "sim", 8
ANSWER_MS = 6_000
"""The store answers within this time, FLUSH_TIMEOUT when nothing is durable by then."""


class Publisher(EventRecorder):
    """A client with a durable session, and the node that it is connected to."""

    def __init__(self) -> None:
        super().__init__("mqtt")
        self.world = World(1, gateways=0)
        self.world.start()
        self.world.clock.run_for(100)
        self.ask(Attach(0, "c", False, 60, 10))
        self.publish(1)
        self.release(1)
        self.world.disk.hold_syncs = True

    def ask(self, command: Command) -> Any:
        """The answer to a command."""
        parts = self.world.parts
        assert parts is not None
        parts.handler.handle(self.connection, command)
        self.world.clock.run_for(ANSWER_MS)
        (answer,) = self.take()
        return answer

    def lose(self) -> None:
        """Lose the connection; later commands come over another one."""
        parts = self.world.parts
        assert parts is not None
        parts.handler.handle(self.connection, Disconnected("lost"))
        self.world.clock.run_for(100)
        self.connection = ClientConnection("mqtt", self)

    def publish(self, packet_id: int) -> Any:
        """The answer to a PUBLISH."""
        return self.ask(SendOnce(1, [Message(TOPIC, b"x", b"")], [packet_id]))

    def release(self, packet_id: int) -> Any:
        """The answer to a PUBREL."""
        return self.ask(ReleasePacketIds(2, [packet_id]))

    def flush(self) -> None:
        """Everything written becomes durable, and what is written from now on does not."""
        self.world.disk.release()
        self.world.clock.run_for(1_000)
        self.world.disk.hold_syncs = True

    def stored(self) -> int:
        """Messages that consumers can read."""
        return sum(map(len, self.world.stored(TOPIC, QUEUES)))


def is_late(answer: object) -> bool:
    """True when the store has not kept its promise yet."""
    return isinstance(answer, Refused) and answer.failure.code is ErrorCode.FLUSH_TIMEOUT


def test_a_retransmission_is_not_acknowledged_before_the_first_copy_is_durable() -> None:
    client = Publisher()
    assert is_late(client.publish(7))
    assert is_late(client.publish(7))
    assert client.stored() == 1
    client.flush()
    assert client.publish(7) == Done(1)
    assert client.stored() == 2, "it was stored once"


def test_a_session_that_comes_back_before_its_message_is_durable_knows_the_identifier() -> None:
    """It leaves the memory with its connection, and is loaded from what is durable: its last append has to be among that."""
    client = Publisher()
    assert is_late(client.publish(7))
    client.lose()
    client.ask(Attach(0, "c", False, 60, 10))
    client.publish(7)
    client.flush()
    assert client.publish(7) == Done(1)
    assert client.stored() == 2, "it was stored once"


def test_a_packet_identifier_is_not_free_before_its_mark_is_durably_gone() -> None:
    client = Publisher()
    client.publish(7)
    client.flush()
    assert is_late(client.release(7))
    again = client.release(7)
    assert isinstance(again, Refused), "the mark is still there for a leader that comes next"
    assert again.failure.code is ErrorCode.STORE_UNAVAILABLE, "nothing more waits for a sync that hangs"
    client.flush()
    assert client.release(7) == PacketIdsReleased(2, [False])


def test_a_packet_identifier_that_was_never_there_is_told_so() -> None:
    assert Publisher().release(9) == PacketIdsReleased(2, [False])
