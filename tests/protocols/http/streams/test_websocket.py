"""Streams in a WebSocket, over HTTP/1.1 and over HTTP/2."""

from __future__ import annotations

import pytest
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from tests.gateway.usecase.bench import Bench
from tests.protocols.http.stage import OnePassword
from tests.protocols.http.streams.visit import KEY, VERSIONS, Socket, Visit, furnished, put

both = pytest.mark.parametrize("version", VERSIONS)


def follow(bench: Bench, version: str, query: str = "from=first") -> Socket:
    socket = Visit(bench, version).socket(f"/v1/topics/T:consume?text=true&{query}")
    assert socket.reply.status == (101 if version == "1.1" else 200)
    return socket


def code(socket: Socket) -> int:
    """The code of the close frame; 0: none has come."""
    return 0 if socket.closed is None else socket.closed[0]


def texts(found: list[dict[str, str]]) -> list[str]:
    return [one["text"] for one in found if one["type"] == "message"]


@both
def test_credit_bounds_what_is_sent(version: str) -> None:
    bench = furnished(1)
    put(bench, *"abcdef")
    socket = follow(bench, version)
    (started,) = socket.hear(200)
    assert (started["type"], started["cursor"] != "") == ("started", True)
    socket.say({"type": "credit", "messages": 2})
    assert texts(socket.hear()) == ["a", "b"]
    socket.say({"type": "credit", "messages": 3})
    assert texts(socket.hear(200)) == ["c", "d", "e"]
    assert socket.closed is None


@both
def test_a_reader_resumes_at_a_cursor(version: str) -> None:
    bench = furnished(2)
    put(bench, "a", "b")
    socket = follow(bench, version, "from=first&credit=1")
    message = socket.hear()[-1]
    put(bench, "c")
    again = follow(bench, version, f"from={message['cursor']}&credit=9")
    assert texts(again.hear()) == ["b", "c"]
    put(bench, "d", queue=1)
    assert texts(again.hear()) == ["d"]


@both
def test_the_key_of_rfc_6455_is_answered(version: str) -> None:
    socket = follow(furnished(), version)
    assert socket.reply.field("sec-websocket-accept") == ("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" if version == "1.1" else "")
    assert KEY == "dGhlIHNhbXBsZSBub25jZQ=="


@both
def test_a_group_is_settled_on_the_stream_itself(version: str) -> None:
    bench = furnished(1)
    put(bench, "a", "b", "c")
    socket = Visit(bench, version).socket("/v1/groups/g/topics/T:consume?text=true&max=2&credit=10")
    found = socket.hear()
    assert texts(found) == ["a", "b"], "two are in flight, whatever the credit"
    first, second = [one["receipt"] for one in found if one["type"] == "message"]
    socket.say({"type": "ack", "receipts": [first, "nonsense"]})
    results = socket.hear()
    assert results[0]["type"] == "results"
    assert [one["ok"] for one in results[0]["results"]] == [True, False]
    assert texts(results) == ["c"]
    socket.say({"type": "extend", "receipts": [second], "invisible_ms": 60_000})
    (extended,) = socket.hear()
    assert extended["results"][0]["next"]
    socket.say({"type": "nack", "receipts": [extended["results"][0]["next"]]})
    assert texts(socket.hear()) == ["b"]
    assert socket.closed is None


@both
def test_without_credit_nothing_is_leased(version: str) -> None:
    bench = furnished(1)
    put(bench, "a")
    socket = Visit(bench, version).socket("/v1/groups/g/topics/T:consume")
    socket.hear(500)
    assert len(bench.receive("g", "T").messages) == 1
    assert socket.closed is None


@both
@pytest.mark.parametrize(
    "said",
    [
        {"type": "credit", "messages": -1},
        {"type": "credit", "messages": 0},
        {"type": "credit", "messages": 100_001},
        {"type": "credit", "messages": 10**30},
        {"type": "credit", "messages": 1.5},
        {"type": "credit", "messages": True},
        {"type": "credit", "messages": "9"},
        {"type": "credit", "messages": 1, "more": 1},
        {"type": "credit"},
        {"type": "steal"},
        {"type": ["credit"]},
        {},
        [],
        "no json",
        '{"type":"credit","messages":NaN}',
        "[" * 10_000,
        {"type": "ack", "receipts": ["r"]},
    ],
)
def test_absurd_messages_close_with_1008_and_words_and_are_counted(version: str, said: object) -> None:
    bench = furnished(1)
    socket = follow(bench, version)
    socket.say(said)
    socket.hear()
    assert code(socket) == 1008
    assert socket.closed is not None
    assert socket.closed[1]
    socket.reply.visit.run()
    assert "websocket-message" in socket.reply.visit.refused
    assert bench.handler.following.waiting() == 0


@both
@pytest.mark.parametrize(
    "said",
    [
        {"type": "ack", "receipts": []},
        {"type": "ack", "receipts": "r"},
        {"type": "ack", "receipts": [1]},
        {"type": "ack", "receipts": ["r"] * 1_025},
        {"type": "ack", "receipts": ["r"], "delay_ms": 1},
        {"type": "nack", "receipts": ["r"], "delay_ms": -1},
        {"type": "extend", "receipts": ["r"]},
        {"type": "extend", "receipts": ["r"], "invisible_ms": 10**12},
    ],
)
def test_absurd_settlements_close_with_1008(version: str, said: object) -> None:
    socket = Visit(furnished(1), version).socket("/v1/groups/g/topics/T:consume")
    socket.say(said)
    socket.hear()
    assert code(socket) == 1008


@both
def test_credit_adds_up_to_its_bound(version: str) -> None:
    socket = follow(furnished(1), version)
    socket.say({"type": "credit", "messages": 100_000})
    socket.hear()
    assert socket.closed is None
    socket.say({"type": "credit", "messages": 1})
    socket.hear()
    assert code(socket) == 1008


@both
@pytest.mark.parametrize(
    ("sent", "closes"),
    [
        (BytesMessage(b"x"), 1003), (TextMessage("x" * 300_000), 1009),
        (b"\x81\xff\x00\x00\x00\x00\x7f\xff\xff\xff", 1009), (b"\xf1\x80aaaa", 1002),
    ],
    ids=["binary", "large text", "large frame", "reserved bits"],
)  # fmt: skip
def test_frames_that_are_not_text_or_too_large(version: str, sent: Event | bytes, closes: int) -> None:
    socket = follow(furnished(1), version)
    socket.put_raw(sent) if isinstance(sent, bytes) else socket.put(sent)
    socket.hear()
    assert code(socket) == closes


@both
def test_pings_both_ways(version: str) -> None:
    socket = follow(furnished(1), version)
    socket.put(Ping(b"here"))
    socket.hear()
    assert [event.payload for event in socket.others if isinstance(event, Pong)] == [b"here"]
    socket.hear(16_000)
    assert any(isinstance(event, Ping) for event in socket.others), "the heartbeat"


@both
def test_the_client_closes(version: str) -> None:
    bench = furnished(1)
    socket = follow(bench, version)
    socket.put(CloseConnection(1000))
    socket.hear()
    assert socket.closed == (1000, "")
    assert bench.handler.following.waiting() == 0
    socket.reply.visit.run()
    assert socket.reply.over if version != "1.1" else socket.reply.visit.server.closed


@both
def test_thousands_of_frames_are_handled_in_turns(version: str) -> None:
    socket = follow(furnished(1), version)
    frame = socket.frames.send(TextMessage('{"type":"credit","messages":1}'))
    socket.put_raw(frame * 2_000)
    socket.hear(200)
    assert socket.closed is None


@both
def test_a_client_that_pings_and_does_not_read_is_not_read(version: str) -> None:
    visit = Visit(furnished(1), version)
    socket = visit.socket("/v1/topics/T:consume")
    assert socket.reply.status
    visit.reading = socket.reply.reading = False
    frame = socket.frames.send(Ping(b"x" * 120))
    for _ in range(40):
        socket.put_raw(frame * 128)
        if version == "1.1" and not visit.server.reading:
            break
    if version == "1.1":
        assert not visit.server.reading
        assert visit.server._stream.flow.held < 256 * 1024  # type: ignore[attr-defined]


@both
def test_an_origin_off_the_list_gets_no_socket(version: str) -> None:
    visit = Visit(furnished(1), version)
    socket = visit.socket("/v1/topics/T:consume", {"Origin": "https://evil.example"})
    assert (socket.reply.status, visit.refused) == (403, ["origin-refused"])
    listed = Visit(furnished(1), version, origins=["https://shop.example"])
    socket = listed.socket("/v1/topics/T:consume", {"Origin": "https://shop.example"})
    assert socket.reply.status in (101, 200)
    assert Visit(furnished(1), version, OnePassword()).socket("/v1/topics/T:consume").reply.status == 401


@both
def test_the_version_and_the_key_are_checked(version: str) -> None:
    visit = Visit(furnished(1), version)
    socket = visit.socket("/v1/topics/T:consume", {"Sec-WebSocket-Version": "8"})
    assert (socket.reply.status, socket.reply.field("sec-websocket-version")) == (426, "13")
    if version == "1.1":
        fields = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "short"}
        assert Visit(furnished(1)).ask("GET", "/v1/topics/T:consume", fields).status == 400


@both
def test_a_node_that_stops_closes_with_1001(version: str) -> None:
    socket = follow(furnished(1), version)
    socket.hear()
    visit = socket.reply.visit
    visit.server.drain(visit.bench.clock.monotonic_ns())
    found = socket.hear()
    assert found[-1]["problem"]["code"] == "draining"
    assert code(socket) == 1001
