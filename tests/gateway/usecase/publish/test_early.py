"""Senders that do not wait for the store are answered when their messages are accepted, or refused."""

from __future__ import annotations

import pytest

from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Refused, Sent
from domain.message.message import Message
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder


@pytest.mark.parametrize("known", [False, True])
def test_an_early_answer_has_no_places_and_comes_once(bench: Bench, known: bool) -> None:
    if known:
        bench.send("orders", "a")
    (event,) = bench.ask(Send(7, [Message("orders", b"x")], early=True), ms=1_000)
    assert isinstance(event, Sent)
    assert (event.ticket, event.placed) == (7, [])
    assert len(bench.receive("g", "orders").messages) == 1 + known


def test_an_early_answer_does_not_wait_for_the_disk(bench: Bench) -> None:
    bench.send("orders", "a")
    recorder = EventRecorder()
    bench.handler.handle(recorder.connection, Send(7, [Message("orders", b"x")], early=True))
    assert [type(event) for event in recorder.take()] == [Sent]


@pytest.mark.parametrize(
    ("topic", "body", "wanted"),
    [
        ("SCHEDULE_TOPIC_XXXX", b"x", ErrorCode.TOPIC_ILLEGAL),
        ("or ders", b"x", ErrorCode.TOPIC_ILLEGAL),
        ("orders", bytes(4 * 1024 * 1024 + 1), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_not_accepted_is_refused_once(bench: Bench, topic: str, body: bytes, wanted: ErrorCode) -> None:
    bench.send("orders", "a")
    events = bench.ask(Send(7, [Message(topic, body)], early=True), ms=1_000)
    assert code(events) is wanted
    assert isinstance(events[0], Refused)
