"""`GET /v1/groups/{group}/topics/{topic}:consume`: leases, their bound, and what ends them."""

from __future__ import annotations

import json

import pytest

from domain.command import Acknowledge, Extend
from domain.message.receipt import Receipt, parse
from tests.gateway.usecase.bench import Bench
from tests.protocols.http.streams.visit import VERSIONS, Reply, Visit, furnished, put

both = pytest.mark.parametrize("version", VERSIONS)


def consume(bench: Bench, version: str, query: str = "max=2") -> Reply:
    reply = Visit(bench, version).ask("GET", f"/v1/groups/g/topics/T:consume?text=true&{query}")
    assert reply.status == 200
    return reply


def receipts(lines: list[dict[str, str]]) -> list[Receipt]:
    found = [parse(line["receipt"]) for line in lines]
    assert None not in found
    return found  # type: ignore[return-value]


def texts(lines: list[dict[str, str]]) -> list[str]:
    return [line["text"] for line in lines]


@both
def test_leases_are_bounded_and_a_settlement_elsewhere_makes_room(version: str) -> None:
    bench = furnished(1)
    put(bench, "a", "b", "c", "d")
    reply = consume(bench, version)
    first = reply.lines(500)
    assert texts(first) == ["a", "b"], "two are in flight"
    bench.ask(Acknowledge(1, "g", "T", receipts(first)[:1]))
    assert texts(reply.lines()) == ["c"]
    bench.ask(Extend(1, "g", "T", receipts(first)[1:], 0))
    assert len(reply.lines()) == 1, "a nack makes room too"


@both
def test_what_is_not_acknowledged_is_redelivered(version: str) -> None:
    bench = furnished(1)
    put(bench, "a")
    reply = consume(bench, version, "max=1&invisible_ms=1000")
    (first,) = reply.lines()
    (second,) = reply.lines(1_500)
    assert (first["text"], first["attempt"]) == ("a", 1)
    assert (second["text"], second["attempt"]) == ("a", 2)
    bench.ask(Acknowledge(1, "g", "T", receipts([second])))
    assert reply.lines(2_500) == []


@both
def test_an_extended_lease_stays_in_flight(version: str) -> None:
    bench = furnished(1)
    put(bench, "a", "b")
    reply = consume(bench, version, "max=1&invisible_ms=1000")
    (line,) = reply.lines()
    bench.ask(Extend(1, "g", "T", receipts([line]), 5_000))
    assert reply.lines(3_000) == []
    assert reply.lines(3_000), "it has ended"


@both
def test_two_streams_of_a_group_share_its_messages(version: str) -> None:
    bench = furnished(1)
    one, two = consume(bench, version, "max=32"), consume(bench, version, "max=32")
    for at in range(6):
        put(bench, f"m{at}")
    assert sorted(texts(one.lines()) + texts(two.lines())) == [f"m{at}" for at in range(6)]


@both
def test_a_slow_client_is_given_no_lease_that_has_ended_and_releases_the_rest_when_it_leaves(version: str) -> None:
    bench = furnished(1)
    for at in range(40):
        put(bench, f"{at:02}" + "x" * 8_000)
    visit = Visit(bench, version)
    visit.reading = False
    visit.ask("GET", "/v1/groups/g/topics/T:consume?max=32&invisible_ms=60000")
    visit.run(100)
    if version == "1.1":
        visit.send(b"")
    else:
        return
    visit.run(100)
    received = bench.receive("g", "T")
    assert received.messages, "what was not written is free at once, and no delivery counts"
    assert {message.attempt for message in received.messages} == {1}


@both
def test_a_client_that_resets_its_stream_while_messages_come(version: str) -> None:
    bench = furnished(1)
    reply = consume(bench, version, "max=8")
    reply.hang_up()
    put(bench, "a")
    reply.visit.run(200)
    (message,) = bench.receive("g", "T", wait_ms=1_000).messages
    assert message.attempt == 1


@both
def test_server_sent_events_of_a_group_have_no_id(version: str) -> None:
    bench = furnished(1)
    put(bench, "a")
    reply = Visit(bench, version).ask("GET", "/v1/groups/g/topics/T:consume?format=sse&text=true")
    (start, event) = reply.events()
    assert ("id" in start, "id" in event, json.loads(event["data"])["text"]) == (False, False, "a")


@both
@pytest.mark.parametrize(
    ("query", "status"),
    [("max=0", 400), ("max=-1", 400), ("max=1025", 400), ("invisible_ms=1", 400), ("from=7", 400), ("ordered=maybe", 400)],
)
def test_bad_parameters(version: str, query: str, status: int) -> None:
    reply = Visit(furnished(), version).ask("GET", f"/v1/groups/g/topics/T:consume?{query}")
    assert (reply.status, reply.json()["code"]) == (status, "argument-illegal")


@both
def test_an_unknown_topic_is_404(version: str) -> None:
    reply = Visit(furnished(), version).ask("GET", "/v1/groups/g/topics/none:consume")
    assert (reply.status, reply.json()["code"]) == (404, "topic-not-found")
