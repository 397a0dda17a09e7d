"""Messages of a WebSocket for protocols whose messages they are: fragments belong together, and are bounded."""

from __future__ import annotations

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Request

from protocols.adapter import Peer
from protocols.host_shares import HostShares
from protocols.websocket.adapter import WebSocketAdapter
from protocols.websocket.connection import WebSocketConnection
from protocols.websocket.message import WholeMessages
from protocols.websocket.settings import WebSocketSettings

PEER = Peer("192.0.2.1", 4_000, b"\xc0\x00\x02\x01\x00\x00\x0f\xa0")


class Lines:
    """A connection that answers each message with two."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.out: list[bytes] = []
        self.reading, self.closed = True, False

    def receive(self, data: bytes, now: int) -> list[object]:
        self.got.append(data)
        self.out += [data, b"and " + data] if data else []
        self.closed = self.closed or not data
        return []

    def answer(self, event: object, now: int) -> None:
        raise AssertionError(event)

    def outgoing(self) -> list[bytes]:
        out, self.out = self.out, []
        return out

    def deadline(self) -> int | None:
        return None

    def expire(self, now: int) -> list[object]:
        return []


class LinesAdapter:
    """Its adapter."""

    name = "lines"
    message_bytes_max = 100_000

    def __init__(self, room: int = 1 << 20) -> None:
        self.uploads = HostShares(room)
        self.made = Lines()

    def connect(self, peer: Peer, now: int) -> Lines:
        return self.made


def opened(adapter: LinesAdapter) -> tuple[WebSocketConnection, WSConnection]:
    connection = WebSocketAdapter({"/lines": adapter}, WebSocketSettings()).connect(PEER, 0)  # type: ignore[dict-item]
    client = WSConnection(ConnectionType.CLIENT)
    connection.receive(client.send(Request("127.0.0.1", "/lines", subprotocols=["lines"])), 0)
    assert isinstance(answers(connection, client)[0], AcceptConnection)
    return connection, client


def answers(connection: WebSocketConnection, client: WSConnection) -> list[Event]:
    for part in connection.outgoing():
        client.receive_data(part)
    return list(client.events())


def test_messages_keep_their_bounds_both_ways() -> None:
    adapter = LinesAdapter()
    connection, client = opened(adapter)
    sent = client.send(BytesMessage(b"one")) + client.send(BytesMessage(b"tw", message_finished=False))
    connection.receive(sent + client.send(BytesMessage(b"o")), 0)
    assert adapter.made.got == [b"one", b"two"]
    heard = [event for event in answers(connection, client) if isinstance(event, BytesMessage)]
    assert [bytes(event.data) for event in heard] == [b"one", b"and one", b"two", b"and two"]
    assert all(event.message_finished for event in heard)


@pytest.mark.parametrize("room", [1 << 20, 1_000])
def test_a_message_that_is_too_large_or_finds_no_room_ends_the_connection(room: int) -> None:
    adapter = LinesAdapter(room)
    connection, client = opened(adapter)
    for _ in range(11):
        if not connection.closed:
            connection.receive(client.send(BytesMessage(b"x" * 10_000, message_finished=False)), 0)
    closes = [event for event in answers(connection, client) if isinstance(event, CloseConnection)]
    assert [event.code for event in closes] == [1009]
    assert adapter.made.got == [b""]


def test_room_is_given_back_with_the_message() -> None:
    adapter = LinesAdapter()
    whole = WholeMessages(adapter, "192.0.2.1")  # type: ignore[arg-type]
    assert whole.add(b"x" * 70_000, False) == b""
    assert adapter.uploads.bytes_held == 70_000
    assert len(whole.add(b"y" * 20_000, True)) == 90_000
    assert adapter.uploads.bytes_held == 0
    assert not whole.fault
