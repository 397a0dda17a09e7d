"""`GET /v1/topics/{path…}:consume`: lines and server-sent events, by offset."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from domain.access.access import BearerToken, Credentials, Password
from domain.access.principal import Principal
from domain.admin.topic import DeleteTopic, PutTopic
from domain.command import Command, FollowTopic
from domain.errors import Failure
from domain.event import TopicFollowed
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from protocols.http.streams import cursor as cursors
from tests.gateway.usecase.bench import Bench
from tests.protocols.http.stage import OnePassword
from tests.protocols.http.streams.visit import VERSIONS, Reply, Visit, furnished, put

both = pytest.mark.parametrize("version", VERSIONS)
SSE = {"Accept": "text/event-stream"}
MEBIBYTE = 1024 * 1024


def texts(lines: list[dict[str, str]]) -> list[str]:
    return [line["text"] for line in lines]


def datas(events: list[dict[str, str]]) -> list[str]:
    return [json.loads(event["data"])["text"] for event in events if "data" in event]


def follow(bench: Bench, version: str, query: str = "from=first", fields: dict[str, str] | None = None) -> Reply:
    reply = Visit(bench, version).ask("GET", f"/v1/topics/T:consume?text=true&{query}", fields)
    assert reply.status == 200
    return reply


@both
def test_lines_tell_what_is_stored_and_then_what_arrives(version: str) -> None:
    bench = furnished()
    put(bench, "one", "two")
    reply = follow(bench, version)
    assert (reply.field("content-type"), reply.field("cache-control")) == ("application/x-ndjson", "private, no-store")
    assert texts(reply.lines()) == ["one", "two"]
    put(bench, "three", queue=1)
    put(bench, "four")
    assert texts(reply.lines()) == ["three", "four"]


@both
def test_bodies_are_base64_unless_text_is_asked_for(version: str) -> None:
    bench = furnished()
    put(bench, "one")
    (line,) = Visit(bench, version).ask("GET", "/v1/topics/T:consume?from=first").lines()
    assert b64decode(line["body"]) == b"one"


@both
def test_every_line_has_a_cursor_with_which_the_next_stream_goes_on(version: str) -> None:
    bench = furnished()
    put(bench, "one", "two")
    put(bench, "three", queue=1)
    (first, *_) = follow(bench, version).lines()
    assert texts(follow(bench, version, f"from={first['cursor']}").lines()) == ["two", "three"]


@both
def test_last_begins_behind_what_is_stored_and_the_field_says_where(version: str) -> None:
    bench = furnished()
    put(bench, "one")
    reply = follow(bench, version, "from=last")
    assert reply.lines() == []
    put(bench, "two")
    assert texts(follow(bench, version, f"from={reply.field('mq-cursor')}").lines()) == ["two"]


@both
def test_an_event_source_that_lost_its_connection_resumes_without_gap_or_doubling(version: str) -> None:
    bench = furnished()
    reply = follow(bench, version, "from=last", SSE)
    (first,) = reply.events()
    assert (reply.field("content-type"), first["retry"], "data" in first) == ("text/event-stream", "2000", False)
    put(bench, "one")
    again = follow(bench, version, "from=last", {**SSE, "Last-Event-ID": first["id"]})
    (_, event) = again.events()
    assert datas([event]) == ["one"], "it was sent before the first connection had an event"
    put(bench, "two", queue=1)
    put(bench, "three")
    third = follow(bench, version, "from=last", {**SSE, "Last-Event-ID": event["id"]})
    assert sorted(datas(third.events())) == ["three", "two"], "each queue keeps its order"


@both
def test_a_silent_stream_has_a_heartbeat_that_moves_the_id_over_what_is_not_wanted(version: str) -> None:
    bench = furnished()
    reply = follow(bench, version, "from=last&tag=k", SSE)
    (first,) = reply.events()
    put(bench, "other", tag="n")
    found = reply.events(45_000)
    assert 2 <= len(found) <= 4
    assert all(set(event) <= {":", "id"} for event in found)
    put(bench, "wanted", tag="k")
    assert found[-1]["id"] != first["id"]
    again = follow(bench, version, "tag=k", {**SSE, "Last-Event-ID": found[-1]["id"]})
    assert datas(again.events()) == ["wanted"]


@both
def test_path_and_filter(version: str) -> None:
    bench = furnished()
    put(bench, "a", path="T/1/x")
    put(bench, "b", path="T/2/x")
    put(bench, "c", path="T/1/y", tag="k")
    assert texts(follow(bench, version, "from=first&path=T/%2B/x").lines()) == ["a", "b"]
    assert texts(follow(bench, version, "from=first&tag=k").lines()) == ["c"]
    assert texts(Visit(bench, version).ask("GET", "/v1/topics/T/2/x:consume?text=true&from=first").lines()) == ["b"]


@both
def test_an_offset_of_one_queue(version: str) -> None:
    bench = furnished()
    put(bench, "a", "b", queue=0)
    put(bench, "c", "d", queue=1)
    reply = follow(bench, version, "queue=1&from=1")
    (line,) = reply.lines()
    assert line["text"] == "d"
    assert texts(follow(bench, version, f"queue=1&from={reply.field('mq-cursor')}").lines()) == ["d"]


@both
@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("from=never", 400, "event-id-invalid"),
        ("from=7", 400, "argument-illegal"),
        ("queue=0&from=99", 400, "event-id-invalid"),
        ("queue=9", 400, "queue-illegal"),
        ("path=a/%23/b", 400, "filter-illegal"),
        ("path=another/%23", 400, "filter-illegal"),
        ("tag=a&filter=a%3D1", 400, "argument-illegal"),
        ("format=xml", 400, "argument-illegal"),
        ("credit=5", 400, "argument-illegal"),
        ("text=yes", 400, "argument-illegal"),
        ("unknown=1", 400, "argument-illegal"),
    ],
)
def test_bad_parameters_are_refused_before_the_stream_begins(version: str, query: str, status: int, code: str) -> None:
    reply = Visit(furnished(), version).ask("GET", f"/v1/topics/T:consume?{query}")
    assert (reply.status, reply.json()["code"]) == (status, code)


@both
def test_a_forged_id_is_refused_and_counted(version: str) -> None:
    bench = furnished()
    put(bench, "one")
    good = follow(bench, version).field("mq-cursor")
    topic = bench.handler.topics.find("T")
    assert topic is not None
    beyond = cursors.encode("T", -1, topic.created_ms, {0: 99, 1: 0})
    other = cursors.encode("U", -1, topic.created_ms, {0: 0})
    for forged in (
        good[:9] + ("x" if good[9] != "x" else "y") + good[10:],
        good[:-4],
        "c",
        "cAAAA",
        "c!!",
        "c" * 5_000,
        beyond,
        other,
        "Zm9yZ2Vk",
    ):
        visit = Visit(bench, version)
        reply = visit.ask("GET", "/v1/topics/T:consume", {**SSE, "Last-Event-ID": forged})
        assert (reply.status, reply.json()["code"]) == (400, "event-id-invalid"), forged
        assert visit.refused == ["event-id-invalid"]


@both
def test_an_id_of_a_topic_that_was_made_again_has_expired(version: str) -> None:
    bench = furnished()
    put(bench, "one")
    old = follow(bench, version).lines()[0]["cursor"]
    bench.ask(DeleteTopic(1, "T"))
    bench.clock.run_for(10)
    bench.ask(PutTopic(1, Topic("T", 2, 2)))
    visit = Visit(bench, version)
    reply = visit.ask("GET", "/v1/topics/T:consume", {"Last-Event-ID": old})
    assert (reply.status, reply.json()["code"], visit.refused) == (410, "event-id-expired", ["event-id-expired"])


@both
def test_a_position_behind_which_retention_has_deleted_has_expired(version: str) -> None:
    bench = furnished()
    put(bench, "one")
    old = follow(bench, version).field("mq-cursor")
    handle = bench.handler.handle

    def deleted(connection: ClientConnection, command: Command) -> None:
        if isinstance(command, FollowTopic) and command.start in ("", "resume"):
            connection.answer(TopicFollowed(command.ticket, "TOO_SMALL", [], {}, 0))
        else:
            handle(connection, command)

    bench.instead = deleted
    visit = Visit(bench, version)
    reply = visit.ask("GET", "/v1/topics/T:consume", {"Last-Event-ID": old})
    assert (reply.status, reply.json()["code"], visit.refused) == (410, "event-id-expired", ["event-id-expired"])
    slow = follow(bench, version)
    assert [line.get("problem", {}).get("code", "") for line in slow.lines(100)] == ["", "event-id-expired"]
    assert slow.over, "a reader that has fallen behind is told, and skips nothing in silence"
    assert slow.visit.refused == ["event-id-expired"]


@both
def test_a_topic_that_is_deleted_ends_its_streams_with_the_reason(version: str) -> None:
    bench = furnished()
    reply = follow(bench, version, "from=last")
    bench.ask(DeleteTopic(1, "T"))
    (line,) = reply.lines(31_000)
    assert line["problem"]["code"] == "topic-not-found"
    assert reply.over
    if version == "1.1":
        assert reply.visit.ask("GET", "/v1/topics").status == 200, "the connection goes on"


@both
def test_head_has_no_content_and_no_stream(version: str) -> None:
    bench = furnished()
    reply = Visit(bench, version).ask("HEAD", "/v1/topics/T:consume")
    assert (reply.status, reply.more()) == (200, b"")
    assert bench.handler.following.waiting() == 0


@both
def test_an_origin_off_the_list_is_refused_and_counted_and_one_on_it_may_read(version: str) -> None:
    bench = furnished()
    visit = Visit(bench, version)
    reply = visit.ask("GET", "/v1/topics/T:consume", {**SSE, "Origin": "https://evil.example"})
    assert (reply.status, reply.json()["code"], visit.refused) == (403, "origin-refused", ["origin-refused"])
    listed = Visit(bench, version, origins=["https://shop.example"])
    reply = listed.ask("GET", "/v1/topics/T:consume", {**SSE, "Origin": "https://shop.example"})
    assert (reply.status, reply.field("access-control-allow-origin")) == (200, "https://shop.example")
    reply = Visit(bench, version).ask("GET", "/v1/topics/T:consume", {**SSE, "Origin": "http://localhost"})
    assert reply.status == 200, "a page of this node itself"


@both
def test_a_preflight_allows_the_fields_of_a_stream(version: str) -> None:
    fields = {
        "Origin": "https://shop.example", "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization, last-event-id",
    }  # fmt: skip
    visit = Visit(furnished(), version, origins=["https://shop.example"])
    reply = visit.ask("OPTIONS", "/v1/topics/T:consume", fields)
    assert (reply.status, reply.field("access-control-allow-headers")) == (204, "authorization, last-event-id")


class OneToken(OnePassword):
    """An authority that knows one token."""

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        return super().authenticate(Password("u", b"p") if credentials == BearerToken("t0k") else None, host, certified)


@both
def test_a_token_in_the_query_counts_where_a_page_cannot_set_a_field(version: str) -> None:
    bench = furnished()
    for query, fields, status in (
        ("access_token=t0k", {}, 200), ("access_token=bad", {}, 401), ("", {}, 401),
        ("", {"Authorization": "Bearer t0k"}, 200), ("access_token=t0k", {"Authorization": "Bearer bad"}, 401),
    ):  # fmt: skip
        reply = Visit(bench, version, OneToken()).ask("GET", f"/v1/topics/T:consume?{query}", fields)
        assert (reply.status, reply.field("cache-control") if status == 200 else "private, no-store") == (
            status, "private, no-store",
        )  # fmt: skip
    refused = Visit(bench, version, OneToken()).ask("GET", "/v1/topics/T:consume?access_token=bad")
    assert "bad" not in json.dumps(refused.json())
    reply = Visit(bench, version, OneToken()).ask("POST", "/v1/topics/T/messages?access_token=t0k", {}, b"x")
    assert reply.status == 401, "only streams take it"


def test_a_reader_that_does_not_read_is_not_read_ahead_for_and_loses_nothing() -> None:
    bench = furnished()
    bodies = [f"{at:04}" + "x" * 4_092 for at in range(1_000)]
    for at in range(0, 1_000, 100):
        put(bench, *bodies[at : at + 100])
    visit = Visit(bench)
    visit.reading = False
    reply = visit.ask("GET", "/v1/topics/T:consume?text=true&from=first", SSE)
    for _ in range(20):
        visit.run(1_000)
        stream = visit.server._stream  # type: ignore[attr-defined]
        assert stream is None or stream.flow.held < MEBIBYTE
        assert bench.handler.following.waiting() == 0, "it asks for nothing while the client does not read"
    visit.reading = True
    got: list[str] = []
    for _ in range(200):
        got += datas(reply.events(5))
        if len(got) == 1_000:
            break
    assert got == bodies


def test_an_http2_reader_with_a_closed_window_holds_little_and_goes_on_with_the_window() -> None:
    bench = furnished()
    bodies = [f"{at:04}" + "x" * 4_092 for at in range(1_000)]
    for at in range(0, 1_000, 100):
        put(bench, *bodies[at : at + 100])
    reply = follow(bench, "2")
    reply.reading = False
    content = reply.more(200)
    server = reply.visit.server
    assert server._engine.held < 256 * 1024  # type: ignore[attr-defined]
    reply.reading = True
    reply.visit.h2.acknowledge_received_data(len(content), reply.stream)
    for _ in range(200):
        content += reply.more(5)
        if content.count(b"\n") == 1_000:
            break
    assert texts([json.loads(line) for line in content.split(b"\n") if line]) == bodies


@both
def test_a_reader_that_hangs_up_leaves_nothing_behind(version: str) -> None:
    bench = furnished()
    reply = follow(bench, version, "from=last")
    assert bench.handler.following.waiting() == 1
    reply.hang_up()
    if version == "1.1":
        assert bench.handler.following.waiting() == 0
        assert reply.visit.server.closed
    put(bench, "one")
    reply.visit.run(31_000)
    assert bench.handler.following.waiting() == 0


@both
def test_a_node_that_stops_says_so_and_ends_the_stream(version: str) -> None:
    reply = follow(furnished(), version, "from=last")
    reply.visit.server.drain(reply.visit.bench.clock.monotonic_ns())
    (line,) = reply.lines()
    assert line["problem"]["code"] == "draining"
    assert reply.over
    reply.visit.run()
    assert reply.visit.server.closed


def test_http10_has_no_chunks() -> None:
    bench = furnished()
    put(bench, "one")
    visit = Visit(bench)
    visit.send(b"GET /v1/topics/T:consume?from=first&text=true HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    visit.run()
    head, _, body = visit.raw.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert json.loads(body)["text"] == "one"


def test_a_request_behind_a_stream_waits() -> None:
    bench = furnished()
    reply = follow(bench, "1.1", "from=last")
    reply.visit.send(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
    assert reply.lines() == []
    bench.ask(DeleteTopic(1, "T"))
    reply.visit.run(31_000)
    assert reply.visit.raw.count(b"HTTP/1.1 200") == 3
