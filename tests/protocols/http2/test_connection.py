"""Streams reach applications, responses reach clients, on both engines."""

from __future__ import annotations

from h2.settings import SettingCodes
from hpack import Encoder

from domain.command import Disconnected, QueryLatest
from domain.event import LatestValue
from protocols.http2.connection import Http2Connection
from protocols.http2.engine import EngineFactory
from protocols.http2.frame import STREAMS_MAX
from protocols.http2.stream import HELD_BYTES_MAX, OUTPUT_BYTES_MAX
from tests.protocols.http2.peer import PEER, PREFACE, REQUEST, SECOND, Client, Notebooks, both_engines, connected, frame
from tests.protocols.taken import only


@both_engines
def test_request_reaches_its_application_and_its_answer_the_client(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1", b"hello")
    command = only(client.commands, QueryLatest)
    assert command.ticket == (notes, stream)
    assert notes.notified == [("opened", stream, b"/note/1"), ("ended", stream, b"hello")]
    client.server.answer(LatestValue(command.ticket, b"world"), 1)
    client.exchange()
    assert client.status(stream) == b"200"
    assert client.body(stream) == b"world"
    assert client.trailers(stream) == {b"grpc-status": b"0"}
    assert client.done(stream)


@both_engines
def test_request_without_a_body_ends_with_its_headers(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1")
    assert notes.notified == [("opened", stream, b"/note/1"), ("ended", stream, b"")]


@both_engines
def test_nobody_accepts_is_404(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/elsewhere", b"x")
    assert client.status(stream) == b"404"
    assert client.done(stream)
    assert notes.notified == []


@both_engines
def test_unasked_event_goes_to_every_application(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    client.server.answer(LatestValue(None, None), 0)
    assert notes.notified == [("unasked",)]


@both_engines
def test_large_answer_follows_the_clients_windows(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1", b"x")
    body = bytes(range(256)) * 4096
    client.server.answer(LatestValue(client.commands[0].ticket, body), 0)  # type: ignore[attr-defined]
    assert notes.reply.pending(stream) == len(body)
    client.exchange()
    assert client.body(stream) == body
    assert client.trailers(stream) == {b"grpc-status": b"0"}
    assert notes.reply.pending(stream) == 0


@both_engines
def test_early_answer_ends_the_upload(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    notes.early = True
    stream = client.connection.get_next_available_stream_id()
    client.connection.send_headers(stream, REQUEST)
    client.exchange()
    assert client.status(stream) == b"413"
    assert client.resets() == {stream: 0}
    assert ("cancelled", stream) not in notes.notified


@both_engines
def test_reset_by_the_client_is_told_once(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1", b"x")
    client.connection.reset_stream(stream, 8)
    client.exchange()
    assert notes.notified[-1] == ("cancelled", stream)
    client.server.answer(LatestValue((notes, stream), b"late"), 1)
    client.exchange()
    assert client.body(stream) == b""
    assert not client.server.closed


@both_engines
def test_end_of_stream_cancels_what_is_open(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1", b"x")
    commands = client.server.receive(b"", 5)
    assert notes.notified[-1] == ("cancelled", stream)
    assert [type(command) for command in commands] == [Disconnected]
    assert client.server.closed
    assert client.server.receive(b"more", 6) == ()


@both_engines
def test_stream_beyond_the_limit_is_refused_before_the_limit_is_known(engine: EngineFactory) -> None:
    factory = Notebooks()
    server = Http2Connection(engine, [factory], PEER, 0)
    client = Client(server)
    client.connection.remote_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
    client.connection.remote_settings.acknowledge()
    # A client may open streams before it has received our SETTINGS: replay its bytes into a new connection.
    fresh = Http2Connection(engine, [factory], PEER, 0)
    sent = PREFACE + frame(4, 0, 0)
    for _ in range(STREAMS_MAX + 2):
        stream = client.connection.get_next_available_stream_id()
        client.connection.send_headers(stream, REQUEST)
        sent += client.connection.data_to_send()
    fresh.receive(sent, 0)
    while fresh.deadline() == 0:
        fresh.expire(0)
    assert not fresh.closed
    assert sum(told[0] == "opened" for told in factory.last.notified) == STREAMS_MAX
    assert b"".join(fresh.outgoing()).count(frame(3, 0, 2 * STREAMS_MAX + 1, b"\x00\x00\x00\x07")) == 1


@both_engines
def test_reading_stops_while_answers_are_not_taken(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.request("/note/1", b"x")
    client.server.answer(LatestValue((notes, stream), bytes(OUTPUT_BYTES_MAX + 1)), 0)
    assert not client.server.reading
    client.server.outgoing()
    assert client.server.reading


@both_engines
def test_new_streams_are_refused_while_too_much_is_held_for_the_peer(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    client.took = lambda event: None  # type: ignore[method-assign]
    stream = client.request("/note/1", b"x")
    client.server.answer(LatestValue((notes, stream), bytes(HELD_BYTES_MAX + 100_000)), 0)
    client.exchange()
    refused = client.request("/note/2", b"x")
    assert client.resets() == {refused: 7}


@both_engines
def test_application_deadline_is_served(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    client.request("/note", b"x")
    notes.due = 3 * SECOND
    assert client.server.deadline() == 3 * SECOND
    command = only(client.server.expire(3 * SECOND), QueryLatest)
    assert command.path == "expired"


@both_engines
def test_request_trailers_end_a_request(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    stream = client.connection.get_next_available_stream_id()
    client.connection.send_headers(stream, REQUEST)
    client.connection.send_data(stream, b"body")
    client.connection.send_headers(stream, [(b"x-check", b"1")], end_stream=True)
    client.exchange()
    assert notes.notified == [("opened", stream, b"/note"), ("ended", stream, b"body")]


@both_engines
def test_a_client_that_says_goodbye_goes_on_with_what_is_under_way(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    answered = client.request("/note/1", b"x")
    open_one = client.connection.get_next_available_stream_id()
    client.connection.send_headers(open_one, REQUEST)
    client.exchange()
    commands = client.server.receive(frame(7, 0, 0, bytes(8)), 0)
    commands = [*commands, *client.server.receive(frame(0, 0, open_one, b"yz") + frame(0, 0x1, open_one), 0)]
    assert [type(command) for command in commands] == [QueryLatest]
    assert not client.server.closed
    for stream in (answered, open_one):
        client.server.answer(LatestValue((notes, stream), b"v" * stream), 0)
    client.exchange()
    assert [client.body(stream) for stream in (answered, open_one)] == [b"v" * answered, b"v" * open_one]
    assert client.goodbye() is None
    commands = [*client.commands, *client.server.receive(frame(6, 0, 0, bytes(8)), 0)]
    assert [command.reason for command in commands if isinstance(command, Disconnected)] == ["goaway"]


def kinds(data: bytes) -> list[int]:
    """The types of the frames in `data`."""
    found: list[int] = []
    while data:
        found.append(data[3])
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return found


@both_engines
def test_a_stopping_node_says_goaway_and_answers_what_is_in_progress(engine: EngineFactory) -> None:
    """RFC 9113, 6.8: GOAWAY names the last stream; what is answered in the same turn goes before it."""
    client, notes = connected(engine)
    first, second = client.request("/note", b"x"), client.request("/note", b"x")
    assert client.server.drain(1) == []
    client.server.answer(LatestValue((notes, first), b"parked"), 1)
    data = b"".join(client.server.outgoing())
    assert kinds(data)[-2:] == [1, 7]
    assert data[-8:] == second.to_bytes(4, "big") + bytes(4)
    assert not client.server.closed
    client.server.answer(LatestValue((notes, second), b"late"), 2)
    assert kinds(b"".join(client.server.outgoing())) == [1, 0, 1]
    assert client.server.deadline() == 0
    assert list(client.server.expire(3)) == [Disconnected("shutting-down", True)]
    assert client.server.closed


@both_engines
def test_a_stopping_node_refuses_new_streams(engine: EngineFactory) -> None:
    client, notes = connected(engine)
    first = client.request("/note", b"x")
    client.server.drain(1)
    client.server.outgoing()
    assert client.server.receive(frame(1, 0x5, first + 2, Encoder().encode(REQUEST)), 2) == []
    assert kinds(b"".join(client.server.outgoing())) == [3]
    assert len(notes.bodies) == 1


@both_engines
def test_an_idle_connection_of_a_stopping_node_ends_at_once(engine: EngineFactory) -> None:
    client, _ = connected(engine)
    assert client.server.drain(1) == [Disconnected("shutting-down", True)]
    assert kinds(b"".join(client.server.outgoing())) == [7]
