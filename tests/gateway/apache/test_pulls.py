"""Pulls of HTTP at the end of a queue of a broker: they wait, and a message ends the wait."""

from __future__ import annotations

import pytest

from domain.command import Command, Pull
from domain.event import Pulled
from domain.message.record import Record
from gateway.connection.client_connection import ClientConnection
from protocols.remoting import codes
from tests.connection_driver import RecordingDriver
from tests.gateway.apache.mqtt_stage import ClusterGateway

SECOND_MS = 1_000


class Reader(RecordingDriver):
    """A connection that reads by offset, with the events that it was answered."""

    def __init__(self, gateway: ClusterGateway) -> None:
        super().__init__()
        self.connection = ClientConnection("http", self)
        self._gateway = gateway

    def pull(self, offset: int, wait_ms: int = 20 * SECOND_MS) -> None:
        """Read queue 0 of T from `offset` on."""
        command: Command = Pull(1, "", "T", 0, offset, 32, 1 << 20, wait_ms)
        self._gateway.handler.handle(self.connection, command)

    def bodies(self) -> list[bytes]:
        """Bodies of the messages of all answers, which are forgotten."""
        events, self.recorded = self.recorded, []
        return [Record(data).body for event in events if isinstance(event, Pulled) for data in event.records]


@pytest.fixture
def gateway() -> ClusterGateway:
    return ClusterGateway()


def test_a_message_of_a_broker_ends_the_wait_of_a_pull(gateway: ClusterGateway) -> None:
    reader = Reader(gateway)
    gateway.queues["broker-a"].put(0, b"before")
    reader.pull(1)
    gateway.run(5 * SECOND_MS)
    assert reader.recorded == []
    gateway.queues["broker-a"].put(0, b"new")
    gateway.run(SECOND_MS)
    assert reader.bodies() == [b"new"]


def test_a_message_that_comes_before_the_topic_is_followed_ends_the_wait(gateway: ClusterGateway) -> None:
    """The broker answers the read, and takes its time to tell where the queue ends."""
    queues = gateway.queues["broker-a"]
    queues.put(0, b"before")
    queues.slow_ms = {codes.GET_MAX_OFFSET: [2 * SECOND_MS]}
    reader = Reader(gateway)
    reader.pull(1)
    gateway.run(SECOND_MS)
    queues.put(0, b"new")
    gateway.run(4 * SECOND_MS)
    assert reader.bodies() == [b"new"]


def test_a_topic_is_followed_while_somebody_waits_and_some_time_longer(gateway: ClusterGateway) -> None:
    assert gateway.rocketmq is not None
    tail = gateway.rocketmq.tail
    readers = [Reader(gateway), Reader(gateway)]
    for reader in readers:
        reader.pull(0)
    gateway.run(SECOND_MS)
    assert tail.figures()["rocketmq_tailed_topics"] == 1
    readers[0].connection.end()
    gateway.run(10 * SECOND_MS)
    assert tail.figures()["rocketmq_tailed_topics"] == 1
    gateway.run(180 * SECOND_MS)
    assert [len(reader.recorded) for reader in readers] == [0, 1]
    assert tail.figures()["rocketmq_tailed_topics"] == 0
