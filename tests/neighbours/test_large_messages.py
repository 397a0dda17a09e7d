"""Large messages that come together are accepted over several turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from domain.command import Send
from domain.event import Event, Sent
from domain.message.message import Message
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.publish import held_sends
from tests.neighbours.node import SharedNode

BODY = bytes(512 * 1024)
COUNT = 16


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def logged(node: SharedNode) -> int:
    """Bytes of the log."""
    return sum(len(content.data) for name, content in node.disk.files.items() if name.startswith("log/"))


class Sender:
    """Who sends by commands. `places`: ticket -> queue offset, in the order of the answers."""

    def __init__(self, node: SharedNode) -> None:
        self._node = node
        self._connection = ClientConnection("test", self)  # type: ignore[arg-type]
        self.places: dict[object, int] = {}

    def answer(self, event: Event) -> None:
        assert isinstance(event, Sent), event
        self.places[event.ticket] = event.placed[0].queue_offset

    def send(self, ticket: int, body: bytes) -> None:
        message = Message("new", body, queue_id=0)
        self._node.parts.gate.handle(self._connection, Send(ticket, [message]))


def test_messages_that_wait_for_their_topic_are_stored_over_many_turns_and_in_their_order(node: SharedNode) -> None:
    sender = Sender(node)
    for ticket in range(COUNT):
        sender.send(ticket, BODY)
    most, ticket = 0, COUNT
    for _ in range(100):
        before = logged(node)
        node.run(1).check()
        most = max(most, logged(node) - before)
        if ticket < COUNT + 20:
            sender.send(ticket, b"comes meanwhile")
            ticket += 1
    assert sender.places == {number: number for number in range(COUNT + 20)}
    assert node.parts.handler.sending.held.bytes == 0
    assert most <= held_sends.APPENDING_BYTES_MAX + len(BODY) + 100_000
