"""`POST /v1/topics/{path…}/messages:stream`: records up, results down."""

from __future__ import annotations

import json

import pytest

from domain.command import FollowTopic
from domain.errors import ErrorCode, Failure
from domain.event import Refused, TopicFollowed
from domain.message.record import Record
from tests.gateway.usecase.bench import Bench
from tests.protocols.http.streams.visit import VERSIONS, Reply, Visit, furnished
from tests.protocols.taken import only

both = pytest.mark.parametrize("version", VERSIONS)
NDJSON = {"Content-Type": "application/x-ndjson"}


def line(text: str, **more: object) -> bytes:
    return json.dumps({"text": text, **more}).encode() + b"\n"


def open_stream(bench: Bench, version: str, fields: dict[str, str] | None = None) -> Reply:
    reply = Visit(bench, version).ask("POST", "/v1/topics/T/messages:stream", {**NDJSON, **(fields or {})}, None)
    assert reply.status == 200
    return reply


def stored(bench: Bench) -> list[str]:
    event = only(bench.ask(FollowTopic(1, "T", {}, "first", -1, 0, 16_000, 4 << 20)), TopicFollowed)
    return [Record(data).body.decode() for data in event.records]


@both
def test_results_come_in_order_while_the_request_goes_on(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    reply.upload(line("a") + line("b"))
    results = reply.lines()
    assert [(one["seq"], one["queue"], one["offset"]) for one in results] == [(0, 0, 0), (1, 0, 1)]
    assert not reply.over
    reply.upload(line("c"))
    assert [one["seq"] for one in reply.lines()] == [2]
    reply.upload(b"", ends=True)
    assert reply.lines() == []
    assert reply.over
    assert stored(bench) == ["a", "b", "c"]


@both
def test_any_split_of_the_bytes_gives_the_same_records(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    for byte in line("a") + b"\r\n\n" + line("b") + b'{"text":"c"}':
        reply.upload(bytes((byte,)))
    reply.upload(b"", ends=True)
    assert [one["seq"] for one in reply.lines()] == [0, 1, 2]
    assert stored(bench) == ["a", "b", "c"]


@both
def test_thousands_of_records_in_one_request(version: str) -> None:
    bench = furnished(4)
    reply = open_stream(bench, version)
    results = []
    for at in range(0, 3_000, 500):
        reply.upload(b"".join(line(f"m{at + n}") for n in range(500)))
        results += reply.lines(100)
    assert [one["seq"] for one in results] == list(range(3_000))
    assert len(set(stored(bench))) == 3_000


@both
def test_empty_lines_cost_nothing_and_their_bytes_are_given_back(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    for _ in range(20):
        reply.upload(b"\n" * 8_000 + b" \r\n" * 2_000)
    reply.upload(line("a"))
    assert [one["seq"] for one in reply.lines()] == [0]
    flow = (
        reply.visit.server._stream.flow  # type: ignore[attr-defined]
        if version == "1.1"
        else reply.visit.server._applications[0]._flows._flows[reply.stream]  # type: ignore[attr-defined]
    )
    assert flow._share.held == 0


@both
def test_a_bad_record_is_refused_in_its_place_and_the_stream_goes_on(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    bad = [
        b"no json\n",
        b"[]\n",
        b'{"text":"x","body":"eA=="}\n',
        b'{"text":"x","nope":1}\n',
        b'{"text":"x","properties":{"UNIQ_KEY":"a"}}\n',
    ]
    reply.upload(line("a") + b"".join(bad) + line("b"), ends=True)
    results = reply.lines()
    assert [one["seq"] for one in results] == list(range(7))
    assert [one.get("error", {}).get("status", 201) for one in results] == [201, 400, 400, 400, 400, 400, 201]
    assert all(one["error"]["code"] and one["error"]["detail"] for one in results[1:6])
    assert stored(bench) == ["a", "b"]


@both
def test_a_record_that_the_store_refuses_does_not_take_the_others_with_it(version: str) -> None:
    bench = furnished(1)
    handle = bench.handler.handle

    def refusing(connection, command):  # type: ignore[no-untyped-def]
        if any(message.body == b"bad" for message in getattr(command, "messages", ())):
            connection.answer(Refused(command.ticket, Failure(ErrorCode.TYPE_CONFLICT, "no")))
        else:
            handle(connection, command)

    bench.instead = refusing
    reply = open_stream(bench, version)
    reply.upload(line("a") + line("bad") + line("b"), ends=True)
    results = reply.lines(100)
    assert [(one["seq"], one.get("error", {}).get("code", "")) for one in results] == [(0, ""), (1, "type-conflict"), (2, "")]
    assert stored(bench) == ["a", "b"]


@both
def test_a_record_with_a_known_key_is_stored_once_and_answered_alike(version: str) -> None:
    bench = furnished(4)
    keyed = [line(f"m{at}", idempotencyKey=f"k{at}", **({"delay_ms": 60_000} if at == 3 else {})) for at in range(6)]
    results = []
    for _ in range(2):
        reply = open_stream(bench, version)
        reply.upload(b"".join(keyed[:4]) + line("none") + keyed[0] + b"".join(keyed[4:]), ends=True)
        results.append(reply.lines(100))
        assert reply.over
    first, again = results
    assert [one["seq"] for one in first] == list(range(8))
    assert [one for one in again if one["seq"] != 4] == [one for one in first if one["seq"] != 4]
    assert {**first[5], "seq": 0} == first[0], "twice in one stream"
    assert first[4]["id"] != again[4]["id"], "without a key it is stored again"
    assert "recall" in first[3]
    assert sorted(stored(bench)) == sorted(["m0", "m1", "m2", "m4", "m5", "none", "none"])


@both
def test_a_known_key_with_another_record_is_refused_in_its_place(version: str) -> None:
    bench = furnished(1)
    open_stream(bench, version).upload(line("a", idempotencyKey="k"), ends=True)
    reply = open_stream(bench, version)
    others = [line("b", idempotencyKey="k"), line("a", idempotencyKey="k", key="x"), line("c"), line("a", idempotencyKey="k")]
    reply.upload(b"".join(others), ends=True)
    results = reply.lines(100)
    assert [one.get("error", {}).get("status", 201) for one in results] == [422, 422, 201, 201]
    assert [one["error"]["code"] for one in results[:2]] == ["key-reused"] * 2
    assert stored(bench) == ["a", "c"], "a refused record does not store the others twice"
    other_path = Visit(bench, version).ask("POST", "/v1/topics/T/x/messages:stream", NDJSON, None)
    other_path.upload(line("a", idempotencyKey="k"), ends=True)
    assert other_path.lines(100)[0]["error"]["code"] == "key-reused"


@both
@pytest.mark.parametrize("key", ["", "x" * 257, 'a"b', "é", "a\nb", 7, None, ["k"], {}], ids=repr)
def test_a_key_that_is_none_is_refused_in_its_place(version: str, key: object) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    reply.upload(line("a", idempotencyKey=key) + line("b" * 70_000, idempotencyKey=key) + line("c"), ends=True)
    results = reply.lines(100)
    assert [one.get("error", {}).get("status", 201) for one in results] == [400, 400, 201]
    assert {one["error"]["member"] for one in results[:2]} == {"idempotencyKey"}
    assert reply.visit.refused == ["argument-illegal"] * 2
    assert stored(bench) == ["c"]


@both
def test_a_large_record_has_a_key_too(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    for _ in range(2):
        reply.upload(line("b" * 70_000, idempotencyKey="k" * 256))
    first, again = reply.lines(100)
    assert {**again, "seq": 0} == first
    assert stored(bench) == ["b" * 70_000]


@both
def test_a_key_as_a_property_does_not_store_its_neighbours_twice(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    keyed = {"properties": {"idempotency-key": "k"}}
    reply.upload(line("a", **keyed) + line("b"))
    assert [one["seq"] for one in reply.lines(100)] == [0, 1]
    reply.upload(line("c") + line("other", **keyed) + line("d"), ends=True)
    results = reply.lines(100)
    assert [one.get("error", {}).get("code", "") for one in results] == ["", "key-reused", ""]
    assert stored(bench) == ["a", "b", "c", "d"]


@both
def test_records_with_keys_wait_for_the_store_together(version: str) -> None:
    """Each is a command of its own, and the next records are read meanwhile: a key does not cost a sync."""
    bench = furnished(1)
    handle = bench.handler.handle
    held = []
    bench.instead = lambda connection, command: held.append((connection, command))
    reply = open_stream(bench, version)
    reply.upload(b"".join(line(f"m{at}", idempotencyKey=f"k{at}") for at in range(100)))
    assert 1 < len(held) <= 128
    reply.upload(line("last"))
    while held:
        commands, held[:] = list(held), []
        for connection, command in reversed(commands):
            handle(connection, command)
        reply.visit.run(100)
    results = reply.lines(100)
    assert [one["seq"] for one in results] == list(range(101)), "results keep the order of the records"
    assert len({one["id"] for one in results}) == 101


@both
def test_who_may_not_send_is_told_so_once_for_each_record(version: str) -> None:
    bench = furnished(1)
    asked = []

    def refusing(connection, command):  # type: ignore[no-untyped-def]
        asked.append(command)
        connection.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, "no", denied=True)))

    bench.instead = refusing
    reply = open_stream(bench, version)
    reply.upload(b"".join(line(f"m{at}") for at in range(5)), ends=True)
    assert [one["error"]["status"] for one in reply.lines(100)] == [403] * 5
    assert len(asked) == 1


@both
def test_a_record_above_the_bound_ends_the_stream_behind_the_results_before_it(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    reply.upload(line("a"))
    assert [one["seq"] for one in reply.lines()] == [0]
    piece = b"x" * 16_000
    for _ in range(500):
        reply.visit.run(1)
        if reply.visit.lost or reply.over:
            break
        try:
            reply.upload(piece)
        except Exception:
            break
    (result,) = reply.lines()
    assert (result["seq"], result["error"]["status"], result["error"]["code"]) == (1, 413, "message-too-large")
    assert "message-too-large" in reply.visit.refused


@both
def test_slow_and_silent_uploads_end_with_408(version: str) -> None:
    reply = open_stream(furnished(1), version)
    reply.upload(b'{"text":')
    (result,) = reply.lines(11_000)
    assert result["error"]["status"] == 408
    reply.visit.run()
    assert "request-timeout" in reply.visit.refused
    if version == "1.1":
        silent = open_stream(furnished(1), version)
        silent.upload(line("a"))
        assert [one.get("seq") for one in silent.lines(119_000)] == [0]
        silent.upload(b"\n")
        assert silent.lines(100_000) == [], "an empty line keeps it open"
        (result,) = silent.lines(25_000)
        assert result["error"]["status"] == 408


@both
def test_reading_stops_while_the_store_has_not_answered(version: str) -> None:
    bench = furnished(1)
    handle = bench.handler.handle
    held = []
    bench.instead = lambda connection, command: held.append((connection, command))
    reply = open_stream(bench, version)
    for _ in range(100):
        reply.upload(line("x" * 1_000) * 16)
        if version == "1.1" and not reply.visit.server.reading:
            break
        if version != "1.1" and reply.visit.server._applications[0]._flows._paused:  # type: ignore[attr-defined]
            break
    else:
        raise AssertionError("it reads on and on")
    assert len(held) == 1, "one command is in flight"
    bench.instead = None
    handle(*held[0])
    sent = len(reply.lines(300))
    assert sent > 900
    assert reply.visit.server.reading


@both
@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"Content-Type": "application/json"}, 415, "media-type"),
        ({"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}, 415, "media-type"),
        ({"Content-Type": "application/x-ndjson", "Idempotency-Key": '"k"'}, 400, "argument-illegal"),
    ],
)
def test_other_content_is_refused(version: str, fields: dict[str, str], status: int, code: str) -> None:
    reply = Visit(furnished(1), version).ask("POST", "/v1/topics/T/messages:stream", fields, None)
    assert (reply.status, json.loads(reply.more())["code"]) == (status, code)


@both
def test_an_upload_that_is_cut_short_stores_what_was_complete(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    reply.upload(line("a") + b'{"text":"half')
    reply.hang_up()
    reply.visit.run(100)
    assert stored(bench) == ["a"]


def test_a_bad_chunk_ends_the_stream_and_the_connection() -> None:
    bench = furnished(1)
    reply = open_stream(bench, "1.1")
    reply.upload(line("a"))
    reply.visit.send(b"zz\r\n")
    results = reply.lines()
    assert [one.get("error", {}).get("code", "") for one in results] == ["", "request-syntax"]
    reply.visit.run()
    assert reply.visit.server.closed


def test_a_client_that_waits_for_100_gets_it_before_the_response() -> None:
    visit = Visit(furnished(1))
    visit.ask("POST", "/v1/topics/T/messages:stream", {**NDJSON, "Expect": "100-continue"}, None)
    assert visit.raw.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_a_content_length_and_a_request_behind_it() -> None:
    bench = furnished(1)
    visit = Visit(bench)
    body = line("a") + line("b")
    reply = visit.ask("POST", "/v1/topics/T/messages:stream", NDJSON, body)
    assert [one["seq"] for one in reply.lines()] == [0, 1]
    assert visit.ask("GET", "/v1/topics").status == 200


@pytest.mark.parametrize("before", ["an upload", "a message"])
def test_an_upload_that_came_before_the_answer_of_another_request_goes_on_behind_it(before: str) -> None:
    """Requests behind each other in one segment (RFC 9112, 9.3.2): none of the second comes when the first is answered."""
    bench = furnished(1)
    visit = Visit(bench)
    first, kind = (line("a"), "application/x-ndjson") if before == "an upload" else (b"a", "text/plain")
    path = "/v1/topics/T/messages" + (":stream" if before == "an upload" else "")
    requests = [(path, first, kind), ("/v1/topics/T/messages:stream", line("b") + line("c"), "application/x-ndjson")]
    visit.send(
        b"".join(
            f"POST {target} HTTP/1.1\r\nHost: n\r\nContent-Type: {of}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            for target, body, of in requests
        )
    )
    visit.run(200)
    assert stored(bench) == ["a", "b", "c"]
    assert visit.raw.endswith(b"0\r\n\r\n")
    assert visit.raw.count(b'"seq":1') == 1
    visit.raw = b""
    assert visit.ask("GET", "/v1/topics").status == 200


@both
def test_a_node_that_stops_answers_what_it_has_read(version: str) -> None:
    bench = furnished(1)
    reply = open_stream(bench, version)
    reply.upload(line("a") + b'{"text"')
    visit = reply.visit
    visit.server.drain(bench.clock.monotonic_ns())
    results = reply.lines(50)
    assert [one.get("error", {}).get("code", "") for one in results] == ["", "draining"]
    visit.run()
    assert visit.server.closed
