"""Handlers over HTTP/2 streams."""

from __future__ import annotations

import json
import zlib

import pytest

from domain.command import Command, Extend, Pull, Receive, Send
from domain.event import Extended, Leased, Pulled, Received
from domain.limits import SMALL_ANSWER_BYTES
from domain.message.message import SYS_COMPRESSED
from domain.message.receipt import Receipt
from protocols.http.application import HttpApplication
from protocols.http.handlers.batch import AT_ONCE_BYTES, MESSAGES_MAX
from protocols.http.handlers.events import PART_EVENTS
from protocols.http2.head import Headers, RequestHead
from tests.protocols.http.stage import EVENT_FIELDS, NOW_MS, PEER, SECOND, WORK_NS, factory, record, sent
from tests.protocols.taken import only

FULL_BYTES = 1 << 26
"""Unread bytes above which the connection of these tests is full."""


class Streams:
    """Collects the responses of an application, by stream."""

    def __init__(self) -> None:
        self.heads: dict[int, list[Headers]] = {}
        self.bodies: dict[int, bytes] = {}
        self.over: set[int] = set()
        self.held = 0
        self.application: HttpApplication = factory().open(self, PEER, 0)

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Header fields of a response."""
        assert stream_id not in self.over
        self.heads.setdefault(stream_id, []).append(headers)
        if end:
            self.over.add(stream_id)

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """A part of a body."""
        assert stream_id not in self.over
        self.bodies[stream_id] = self.bodies.get(stream_id, b"") + data
        if end:
            self.over.add(stream_id)

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """Not used by HTTP here."""
        raise AssertionError

    def reset(self, stream_id: int, code: int) -> None:
        """Not used by HTTP here."""
        raise AssertionError

    def pending(self, stream_id: int) -> int:
        """Bytes that the client has not read, set by the test."""
        return self.held

    def pause(self, stream_id: int) -> None:
        """Not used by HTTP here."""
        raise AssertionError

    def resume(self, stream_id: int) -> None:
        """Not used by HTTP here."""
        raise AssertionError

    def is_full(self) -> bool:
        """Whether `held` is too much."""
        return self.held > FULL_BYTES

    def hold(self, size: int) -> None:
        """Not used by HTTP here."""
        raise AssertionError

    def status(self, stream_id: int) -> int:
        """The status of the last response."""
        return int(dict(self.heads[stream_id][-1])[b":status"])

    def ask(
        self, stream_id: int, method: str, path: str, fields: dict[str, str] | None = None, pieces: tuple[bytes, ...] = ()
    ) -> list[Command]:
        """Send one whole request."""
        commands = list(self.application.opened(stream_id, head(method, path, fields), 0))
        for piece in pieces:
            commands += self.application.data(stream_id, piece, 0)
        commands += self.application.ended(stream_id, 0)
        while (due := self.application.deadline()) is not None and due <= WORK_NS:
            commands += self.application.expire(due)
        return commands


def head(method: str, path: str, fields: dict[str, str] | None = None) -> RequestHead:
    """A request head."""
    out = [(b":method", method.encode()), (b":scheme", b"http"), (b":authority", b"localhost"), (b":path", path.encode())]
    return RequestHead(out + [(name.lower().encode(), value.encode()) for name, value in (fields or {}).items()])


def test_a_request_is_answered_on_its_stream() -> None:
    streams = Streams()
    (first,) = streams.ask(1, "POST", "/ce/orders", EVENT_FIELDS, (b"hel", b"lo"))
    (second,) = streams.ask(3, "POST", "/v1/topics/t/messages", None, (b"x",))
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    assert first.messages[0].body == b"hello"
    assert first.ticket == (streams.application, 1)
    streams.application.answer(sent(second), 0)
    streams.application.answer(sent(first), 0)
    assert (streams.status(1), streams.status(3)) == (204, 201)
    assert b"content-length" not in dict(streams.heads[1][0])
    assert len(streams.bodies[3]) == int(dict(streams.heads[3][0])[b"content-length"])
    assert streams.over == {1, 3}
    streams.application.answer(sent(first), 0)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("DELETE", "/v1/topics", 405), ("CONNECT", "", 405), ("GET", "", 400), ("OPTIONS", "*", 204)],
)
def test_what_is_answered_without_the_gateway(method: str, path: str, status: int) -> None:
    streams = Streams()
    assert streams.ask(1, method, path, None, (b"dropped",) if status != 204 else ()) == []
    assert streams.status(1) == status
    assert streams.over == {1}


def test_head_has_no_body() -> None:
    streams = Streams()
    streams.ask(1, "HEAD", "/nothing")
    assert streams.over == {1}
    assert 1 not in streams.bodies


def test_a_target_above_8_kib_is_414() -> None:
    """RFC 9110, 15.5.15; as over HTTP/1.1."""
    streams = Streams()
    assert streams.ask(1, "GET", "/v1/topics/t/queues/3?offset=0&filter=" + "x" * 8_192) == []
    assert streams.status(1) == 414


def test_one_slice_of_one_stream_runs_in_a_turn() -> None:
    streams = Streams()
    application = streams.application
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    fields = {"content-type": "application/cloudevents-batch+json"}
    commands: list[Command] = []
    for stream_id in (1, 3, 5):
        commands += application.opened(stream_id, head("POST", "/ce/t", fields), 0)
        commands += application.data(stream_id, json.dumps([event] * 3 * PART_EVENTS).encode(), 0)
        commands += application.ended(stream_id, 0)
    while (due := application.deadline()) is not None:
        turn = application.expire(due + SECOND)
        assert len(turn) <= 1
        commands += turn
    assert len(commands) == 9


def test_the_answer_to_a_large_batch_may_come_before_its_last_slice() -> None:
    streams = Streams()
    application = streams.application
    body = json.dumps([{"text": "x" * AT_ONCE_BYTES}] * 2).encode()
    application.opened(1, head("POST", "/v1/topics/t/messages:batch", {"content-type": "application/json"}), 0)
    application.data(1, body, 0)
    commands = list(application.ended(1, 0))
    while not commands:
        due = application.deadline()
        assert due is not None
        commands += application.expire(due)
    command = only(commands, Send)
    application.answer(sent(command), 0)
    assert streams.status(1) == 200
    assert application.expire(SECOND) == []
    assert application.deadline() is None
    assert len(streams.heads[1]) == 1


def test_a_cancelled_request_is_not_answered() -> None:
    streams = Streams()
    (command,) = streams.ask(1, "POST", "/ce/orders", EVENT_FIELDS, (b"x",))
    streams.application.cancelled(1, 0)
    assert isinstance(command, Send)
    streams.application.answer(sent(command), 0)
    streams.application.opened(3, head("POST", "/ce/orders", EVENT_FIELDS), 0)
    streams.application.cancelled(3, 0)
    assert streams.application.ended(3, 0) == ()
    assert streams.heads == {}


def test_what_was_leased_for_a_cancelled_request_is_given_back() -> None:
    streams = Streams()
    (command,) = streams.ask(1, "POST", "/v1/groups/g/topics/t:receive?wait_ms=5000")
    streams.application.cancelled(1, 0)
    assert streams.application.deadline() is None
    receipt = Receipt(1, NOW_MS, 30_000, 0, 0, "broker-a", 3, 1)
    streams.application.answer(Received((streams.application, 1), [Leased(record(), receipt, 1)], NOW_MS, 30_000), 0)
    assert isinstance(command, Receive)
    assert streams.application.deadline() == 0
    undo = only(streams.application.expire(SECOND), Extend)
    assert (undo.group, undo.topic, undo.receipts, undo.invisible_ms) == ("g", "t", [receipt], 0)
    assert streams.application.deadline() is None
    streams.application.answer(Extended(undo.ticket, [receipt]), 0)
    assert streams.heads == {}


def test_what_a_response_leaves_out_is_given_back() -> None:
    streams = Streams()
    only(streams.ask(1, "POST", "/v1/groups/g/topics/t:receive?max=32"), Receive)
    receipts = [Receipt(number, NOW_MS, 30_000, 0, 0, "broker-a", 3, number) for number in range(32)]
    packed = record(body=zlib.compress(bytes(1 << 20)), sys_flag=SYS_COMPRESSED)
    leased = [Leased(packed, receipt, 1) for receipt in receipts]
    streams.application.answer(Received((streams.application, 1), leased, NOW_MS, 30_000), 0)
    assert streams.status(1) == 200
    assert streams.application.deadline() == 0
    undo = only(streams.application.expire(SECOND), Extend)
    assert undo.receipts == receipts[4:]


def test_a_large_answer_is_429_for_who_has_not_read_those_before() -> None:
    receipt = Receipt(1, NOW_MS, 30_000, 0, 0, "broker-a", 3, 1)
    streams = Streams()
    (leasing,) = streams.ask(1, "POST", "/v1/groups/g/topics/t:receive?wait_ms=5000")
    (small,) = streams.ask(3, "POST", "/v1/groups/g/topics/t:receive?wait_ms=5000")
    (pulling,) = streams.ask(5, "GET", "/v1/topics/t/queues/3?offset=0&wait_ms=5000")
    assert isinstance(leasing, Receive)
    assert isinstance(small, Receive)
    assert isinstance(pulling, Pull)
    streams.held = FULL_BYTES + 1
    large = record(body=bytes(5_000))
    streams.application.answer(Received(leasing.ticket, [Leased(large, receipt, 1)], NOW_MS, 30_000), 0)
    streams.application.answer(Received(small.ticket, [Leased(record(), receipt, 1)], NOW_MS, 30_000), 0)
    streams.application.answer(Pulled(pulling.ticket, "FOUND", [large], 41, 0, 41), 0)
    assert [streams.status(stream) for stream in (1, 3, 5)] == [429, 200, 429]
    assert (b"retry-after", b"1") in streams.heads[1][-1]
    assert b'"code":"rate"' in streams.bodies[1]
    undo = only(streams.application.expire(0), Extend)
    assert (undo.group, undo.topic, undo.receipts, undo.invisible_ms) == ("g", "t", [receipt], 0)
    streams.application.answer(Extended(undo.ticket, [receipt]), 0)
    streams.held = FULL_BYTES
    leasing = only(streams.ask(7, "POST", "/v1/groups/g/topics/t:receive"), Receive)
    streams.application.answer(Received(leasing.ticket, [Leased(large, receipt, 1)], NOW_MS, 30_000), 0)
    assert streams.status(7) == 200


def test_a_large_answer_without_room_is_refused_before_it_is_made() -> None:
    """What is no record would end the connection if a response were made of it."""
    streams = Streams()
    pulling = only(streams.ask(1, "GET", "/v1/topics/t/queues/3?offset=0&wait_ms=5000"), Pull)
    streams.held = FULL_BYTES + 1
    streams.application.answer(Pulled(pulling.ticket, "FOUND", [b"x" * 5_000], 41, 0, 41), 0)
    assert streams.status(1) == 429


def test_what_has_been_done_is_told_however_much_is_unread() -> None:
    """A batch is stored: refusing its large response would make the client send it again."""
    streams = Streams()
    batch = b"[" + b",".join([b'{"text":"x"}'] * 200) + b"]"
    target = "/v1/topics/orders/messages:batch"
    command = only(streams.ask(1, "POST", target, {"content-type": "application/json"}, (batch,)), Send)
    streams.held = 2 * FULL_BYTES
    streams.application.answer(sent(command), 0)
    assert streams.status(1) < 300
    assert len(streams.bodies[1]) > SMALL_ANSWER_BYTES


@pytest.mark.parametrize("length", ["12a", "-1", "9" * 13])
def test_a_length_that_is_no_number_is_refused_at_once(length: str) -> None:
    streams = Streams()
    streams.application.opened(1, head("POST", "/v1/topics/t/messages", {"content-length": length}), SECOND)
    assert streams.status(1) == 413


def test_a_large_request_is_refused_at_once_and_its_stream_ends_later() -> None:
    """RFC 9113, 8.1: a client that is still uploading has time to read the response."""
    streams = Streams()
    streams.application.opened(1, head("POST", "/v1/topics/t/messages", {"content-length": "9999999"}), SECOND)
    assert streams.status(1) == 413
    assert streams.over == set()
    streams.application.data(1, b"x" * 9_000_000, SECOND)
    assert streams.application.deadline() == SECOND + SECOND // 2
    streams.application.expire(2 * SECOND)
    assert streams.over == {1}
    assert streams.application.deadline() is None


def test_a_small_request_is_refused_at_its_end() -> None:
    streams = Streams()
    streams.application.opened(1, head("POST", "/nothing"), 0)
    streams.application.data(1, b"x", 0)
    assert streams.heads == {}
    streams.application.ended(1, 0)
    assert (streams.status(1), streams.over) == (404, {1})
    streams.application.opened(3, head("POST", "/nothing"), 0)
    streams.application.data(3, b"x" * 70_000, 0)
    assert (streams.status(3), streams.over) == (404, {1})


def test_slow_content_is_408() -> None:
    streams = Streams()
    assert streams.application.deadline() is None
    streams.application.opened(1, head("POST", "/v1/topics/t/messages"), SECOND)
    streams.application.opened(3, head("POST", "/v1/topics/t/messages"), 2 * SECOND)
    streams.application.data(1, b"x" * 65_536, 3 * SECOND)
    assert streams.application.deadline() == 12 * SECOND
    streams.application.expire(12 * SECOND)
    assert streams.status(3) == 408
    assert 1 not in streams.heads
    assert streams.application.deadline() == 13 * SECOND


def test_grpc_is_for_another_application() -> None:
    application = Streams().application
    assert application.accepts(head("POST", "/ce/orders", {"content-type": "application/json"}))
    assert not application.accepts(head("POST", "/x", {"content-type": "application/grpc+proto"}))


def test_a_host_beside_the_authority_is_the_same_one() -> None:
    """RFC 9113, 8.3.1: clients may send both; a request with two different ones is malformed."""
    streams = Streams()
    only(streams.ask(1, "POST", "/ce/orders", {**EVENT_FIELDS, "host": "LocalHost"}, (b"x",)), Send)
    assert streams.ask(3, "POST", "/ce/orders", {**EVENT_FIELDS, "host": "other"}, (b"x",)) == []
    assert streams.status(3) == 400


def test_another_request_is_carried_out_between_the_slices_of_a_large_one() -> None:
    application = Streams().application
    batch = json.dumps([{"text": "x" * 200, "key": "k"}] * MESSAGES_MAX).encode()
    application.opened(1, head("POST", "/v1/topics/t/messages:batch", {"Content-Type": "application/json"}), 0)
    application.data(1, batch, 0)
    assert list(application.ended(1, 0)) == [], "its first slice"
    assert list(application.expire(0)) == [], "one slice in a turn"
    application.opened(3, head("POST", "/v1/topics/t/messages", None), 0)
    application.data(3, b"small", 0)
    [small] = application.ended(3, 0)
    assert isinstance(small, Send)
    assert small.messages[0].body == b"small"
    turns, large = 0, list[Command]()
    while not large:
        turns += 1
        assert application.deadline() == 0
        large += application.expire(0)
    assert turns > 1
    assert len(only(large, Send).messages) == MESSAGES_MAX
