"""Pipelining, keep-alive and deadlines of an HTTP/1.1 connection (RFC 9112, section 9)."""

from __future__ import annotations

import gzip

import pytest

from domain.access.principal import GATEWAY
from domain.command import Command, Disconnected, Extend, Receive, Send
from domain.event import Done, Event, Extended, Leased, Received
from domain.message.receipt import Receipt
from protocols.host_shares import SHARED_BYTES_MAX
from tests.protocols.http.stage import EVENT, EVENT_FIELDS, NOW_MS, SECOND, Client, parse, record, request, sent
from tests.protocols.taken import last, only

MESSAGE = request("POST", "/v1/topics/t/messages", None, b"hello")


def silent(command: Command) -> Event | None:
    """A gateway that does not answer."""
    return None


def test_pipelined_answers_keep_the_order_of_their_requests() -> None:
    """RFC 9112, 9.3.2."""
    client = Client(silent).send(EVENT + request("GET", "/nothing") + MESSAGE)
    first, second = (command for command in client.commands if isinstance(command, Send))
    client.connection.answer(sent(second), 0)
    client.drain()
    assert client.output == b""
    client.connection.answer(sent(first), 0)
    client.drain()
    assert [answer.status for answer in client.answers()] == [204, 404, 201]


def test_an_answer_given_twice_is_given_once() -> None:
    client = Client(silent).send(EVENT)
    command = only(client.commands, Send)
    for _ in range(2):
        client.connection.answer(sent(command), 0)
    client.connection.answer(Done(None), 0)
    client.connection.answer(Done("another's"), 0)
    client.drain()
    assert len(client.answers()) == 1


def test_reading_stops_when_too_many_requests_wait() -> None:
    client = Client(silent).send(EVENT * 63)
    assert client.connection.reading
    client.send(EVENT)
    assert not client.connection.reading
    command = last(client.commands, Send, 0)
    client.connection.answer(sent(command), 0)
    assert client.connection.reading


def test_reading_stops_when_too_much_content_waits() -> None:
    large = request("POST", "/v1/topics/t/messages", None, b"x" * 4_000_000)
    client = Client(silent).send(large * 4)
    assert client.connection.reading
    client.send(large)
    assert not client.connection.reading
    command = last(client.commands, Send, 0)
    client.connection.answer(sent(command), 0)
    assert client.connection.reading


def test_content_of_a_request_in_slices_that_is_answered_before_its_last_slice_is_not_held() -> None:
    """Else a connection with such requests stops reading after HELD_BYTES_MAX of them."""
    packed = request("POST", "/v1/topics/t/messages", {"Content-Encoding": "gzip"}, gzip.compress(bytes(4_000_000)))
    client = Client()
    for at in range(5):
        client.send(packed)
        assert client.connection.reading, f"after {at} requests"
    assert [answer.status for answer in client.answers()] == [201] * 5


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", False),
        (b"GET /nothing HTTP/1.0\r\n\r\n", False),
        (b"GET /nothing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_keep_alive(head: bytes, kept: bool) -> None:
    """RFC 9112, 9.3."""
    client = Client().send(head + EVENT)
    assert client.connection.closed is not kept
    assert len(client.answers()) == (2 if kept else 1)
    if b"1.0" in head and kept:
        assert client.answers()[0].field("connection") == "keep-alive"


def test_expect_100_is_answered_when_its_turn_has_come() -> None:
    """RFC 9110, 10.1.1."""
    head = b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    client = Client().send(head)
    assert client.output == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.output = b""
    assert [answer.status for answer in client.send(b"abc").answers()] == [201]

    behind = Client(silent).send(EVENT + head)
    assert behind.output == b""
    command = last(behind.commands, Send, 0)
    behind.connection.answer(sent(command), 0)
    behind.drain()
    assert [answer.status for answer in parse(behind.output)] == [204, 100]

    assert [answer.status for answer in Client().send(head + b"abc").answers()] == [201]


def test_an_expectation_is_not_met_for_a_request_that_is_refused() -> None:
    head = b"POST /nothing HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    (answer,) = Client().send(head).answers()
    assert (answer.status, answer.field("connection")) == (404, "close")
    assert Client().ask("POST", "/ce/t", {"Expect": "magic"}, b"").status == 417


def test_a_refused_request_with_a_small_body_keeps_the_connection() -> None:
    client = Client().send(request("POST", "/nothing", None, b"x" * 60_000) + EVENT)
    assert [answer.status for answer in client.answers()] == [404, 204]


def test_head_and_options() -> None:
    client = Client()
    answer = client.ask("HEAD", "/nothing")
    assert (answer.status, answer.body) == (404, b"")
    assert int(answer.field("content-length") or 0) > 0
    assert client.ask("OPTIONS", "*").status == 204
    assert client.ask("OPTIONS", "/v1/topics").field("allow") == "GET, HEAD, OPTIONS"
    refused = client.ask("PUT", "/v1/topics", None, b"x")
    assert (refused.status, refused.field("allow")) == (405, "GET, HEAD, OPTIONS")


def test_absolute_form_is_taken() -> None:
    """RFC 9112, 3.2.2."""
    assert Client().ask("POST", "http://localhost:8080/ce/orders", EVENT_FIELDS, b"x").status == 204


def test_an_upgrade_is_declined_by_answering() -> None:
    """RFC 9110, 7.8: with content, without, and with a second request."""
    fields = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}
    client = Client().send(request("POST", "/v1/topics/t/messages", fields, b"abc") + request("GET", "/x", fields) + EVENT)
    assert [answer.status for answer in client.answers()] == [201, 404, 204]


def test_deadlines() -> None:
    """10 s for the first request, 10 s for a whole head, 10 s and the minimum rate for content, 60 s between requests."""
    idle = Client()
    assert idle.connection.deadline() == 10 * SECOND
    assert [type(command) for command in idle.connection.expire(10 * SECOND)] == [Disconnected]
    assert (idle.connection.closed, idle.connection.outgoing()) == (True, [])

    slow = Client()
    for second in range(1, 9):
        slow.send(EVENT[second : second + 1] if second > 1 else EVENT[:2], second * SECOND)
    assert slow.connection.deadline() == 11 * SECOND
    slow.connection.expire(11 * SECOND)
    slow.drain()
    assert [answer.status for answer in slow.answers()] == [408]
    assert slow.connection.closed

    content = Client().send(b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", SECOND)
    content.send(b"x" * 65_536, 5 * SECOND)
    late_head = Client().send(request("POST", "/v1/topics/t/messages", None, b"abc")[:-10])
    late_head.send(request("POST", "/v1/topics/t/messages", None, b"abc")[-10:-3], 9 * SECOND)
    assert late_head.connection.deadline() == 19 * SECOND
    assert content.connection.deadline() == 13 * SECOND
    assert not content.connection.expire(12 * SECOND)
    content.connection.expire(13 * SECOND)
    content.drain()
    assert [answer.status for answer in content.answers()] == [408]

    kept = Client().send(EVENT, 5 * SECOND)
    assert kept.connection.deadline() == 65 * SECOND


def test_nothing_is_due_while_the_gateway_works() -> None:
    client = Client(silent).send(EVENT)
    assert client.connection.deadline() is None


def test_a_slow_request_behind_an_unanswered_one_waits_for_its_turn() -> None:
    client = Client(silent).send(EVENT + EVENT[:40])
    client.connection.expire(10 * SECOND)
    assert not client.connection.closed
    command = last(client.commands, Send, 0)
    client.connection.answer(sent(command), 10 * SECOND)
    client.drain()
    assert [answer.status for answer in client.answers()] == [204, 408]
    assert client.connection.closed


def test_a_peer_that_has_finished_sending_still_gets_its_answers() -> None:
    client = Client(silent).send(EVENT)
    client.send(b"")
    assert not client.connection.closed
    command = last(client.commands, Send, 0)
    client.connection.answer(sent(command), 0)
    client.drain()
    assert [answer.status for answer in client.answers()] == [204]
    assert client.connection.closed


def test_pipelined_answers_that_nobody_reads_are_bounded() -> None:
    receipts = [Receipt(at, NOW_MS, 30_000, 0, 0, "broker-a", 3, at) for at in range(41)]
    client = Client(silent).send(request("POST", "/v1/groups/g/topics/t:receive?wait_ms=5000") * 41)
    large = record(body=bytes(4 << 20))
    for at, command in enumerate(client.commands):
        assert isinstance(command, Receive)
        # The last of them is no record: a response is not made of it.
        data = large if at < 39 else b"x" * (4 << 20) if at == 39 else record()
        client.connection.answer(Received(command.ticket, [Leased(data, receipts[at], 1)], NOW_MS, 30_000), 0)
    assert client.connection.deadline() == 0
    given_back: list[Receipt] = []
    for undo in client.connection.expire(0):
        assert isinstance(undo, Extend)
        assert (undo.group, undo.topic, undo.untold, undo.principal) == ("g", "t", True, GATEWAY)
        given_back += undo.receipts
        client.connection.answer(Extended(undo.ticket, list(undo.receipts)), 0)
    assert client.connection.deadline() != 0
    client.drain()
    assert len(client.output) < SHARED_BYTES_MAX // 2 + (6 << 20)
    statuses = [answer.status for answer in client.answers()]
    whole = statuses.index(429)
    assert statuses == [200] * whole + [429] * (40 - whole) + [200]
    assert given_back == receipts[whole:40]


def test_a_peer_that_hangs_up_while_it_waits_for_messages_has_gone() -> None:
    """No message is leased for it afterwards."""
    for target, over in (("?wait_ms=5000", True), ("", False)):
        client = Client(silent).send(EVENT + request("POST", f"/v1/groups/g/topics/t:receive{target}"))
        client.send(b"")
        assert client.connection.closed is over
        assert isinstance(client.commands[-1], Disconnected) is over


@pytest.mark.parametrize(("data", "reason", "clean"), [(b"", "end-of-stream", True), (EVENT[:30], "cut-short", False)])
def test_end_of_stream(data: bytes, reason: str, clean: bool) -> None:
    client = Client()
    if data:
        client.send(data)
    client.send(b"")
    command = only(client.commands, Disconnected)
    assert (command.reason, command.clean, client.connection.closed) == (reason, clean, True)
    assert client.connection.receive(EVENT, 0) == ()
