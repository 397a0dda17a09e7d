"""The node stops: requests in progress are answered, and clients are told to go elsewhere (RFC 9112, 9.6)."""

from __future__ import annotations

from domain.command import Disconnected, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from protocols.http2.head import RequestHead
from tests.protocols.http.stage import EVENT, PEER, Client, factory, request, sent
from tests.protocols.http.test_application import Streams
from tests.protocols.taken import only

WAITING = request("POST", "/v1/groups/g/topics/t:receive?wait_ms=5000")
STOPPING = Failure(ErrorCode.DRAINING, "the node stops")


def test_an_idle_connection_is_closed() -> None:
    client = Client().send(EVENT)
    assert client.connection.drain(1) == [Disconnected("shutting-down", True)]
    assert client.connection.closed
    assert client.connection.drain(1) == ()


def test_a_parked_receive_is_answered_503_and_the_connection_closed() -> None:
    client = Client(lambda command: None).send(WAITING)
    command = only(client.commands, Receive)
    assert client.connection.drain(1) == []
    assert not client.connection.closed
    client.connection.answer(Refused(command.ticket, STOPPING), 2)
    client.drain()
    (answer,) = client.answers()
    assert (answer.status, answer.field("connection"), answer.json()["code"]) == (503, "close", "draining")
    assert client.connection.closed


def test_an_incomplete_request_is_answered_503() -> None:
    client = Client().send(EVENT[:-3])
    client.take(client.connection.drain(1))
    (answer,) = client.answers()
    assert (answer.status, answer.field("connection")) == (503, "close")
    assert not [command for command in client.commands if not isinstance(command, Disconnected)]


def test_further_requests_are_not_carried_out() -> None:
    client = Client(lambda command: None).send(EVENT)
    first = client.commands[0]
    client.connection.drain(1)
    client.send(EVENT, 2)
    assert len(client.commands) == 1
    client.connection.answer(sent(first), 3)  # type: ignore[arg-type]
    client.drain()
    assert [answer.status for answer in client.answers()] == [204]
    assert client.answers()[0].field("connection") == "close"


def test_a_stream_whose_refused_content_is_discarded_ends_all_the_same() -> None:
    """Else the connection, which waits for its last stream, is not closed."""
    streams = Streams()
    application = factory().open(streams, PEER, 0)
    fields = [(b":method", b"POST"), (b":path", b"/v1/topics/t/messages"), (b":authority", b"localhost")]
    application.opened(1, RequestHead([*fields, (b"content-length", b"9999999")]), 0)
    assert (streams.status(1), streams.over) == (413, set())
    application.drain(1)
    due = application.deadline()
    assert due is not None
    application.expire(due)
    assert streams.over == {1}
    assert len(streams.heads[1]) == 1
