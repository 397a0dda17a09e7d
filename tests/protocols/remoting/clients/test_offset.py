"""Codes 29 to 32: replies for queues that do not exist, and for other refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.admin.topic import Bounds, EarliestStoreTime
from domain.errors import ErrorCode, Failure
from domain.event import Event, Offset, Refused
from protocols.remoting.connection import RemotingConnection
from tests.protocols.remoting.frames import fields, one, reply, request

ASKED = {"topic": "T", "queueId": "3", "timestamp": "1700000000000"}
ANSWERS: list[tuple[int, str, str, Callable[[object], Event]]] = [
    (29, "offset", "0", lambda ticket: Offset(ticket, 42)),
    (30, "offset", "0", lambda ticket: Bounds(ticket, [(3, 7, 42)])),
    (31, "offset", "0", lambda ticket: Bounds(ticket, [(3, 42, 50)])),
    (32, "timestamp", "-1", lambda ticket: EarliestStoreTime(ticket, 42)),
]


@pytest.mark.parametrize(("code", "name", "nothing", "event"), ANSWERS, ids=[str(each[0]) for each in ANSWERS])
def test_the_bounds_of_a_queue(
    conn: RemotingConnection, code: int, name: str, nothing: str, event: Callable[[object], Event]
) -> None:
    command = one(conn, request(code, ASKED))
    assert (command.topic, command.queue_id) == ("T", 3)
    conn.answer(event(command.ticket), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame)) == (0, {name: "42"})


@pytest.mark.parametrize("reason", [ErrorCode.TOPIC_NOT_FOUND, ErrorCode.QUEUE_ILLEGAL])
@pytest.mark.parametrize(("code", "name", "nothing"), [each[:3] for each in ANSWERS])
def test_a_queue_that_does_not_exist_is_reported_as_empty(
    conn: RemotingConnection, code: int, name: str, nothing: str, reason: ErrorCode
) -> None:
    command = one(conn, request(code, ASKED))
    conn.answer(Refused(command.ticket, Failure(reason, "no such queue")), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame), frame.remark) == (0, {name: nothing}, "no such queue")


@pytest.mark.parametrize("code", [each[0] for each in ANSWERS])
def test_other_refusals_are_replied_unchanged(conn: RemotingConnection, code: int) -> None:
    command = one(conn, request(code, ASKED))
    conn.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, "no right")), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame), frame.remark) == (16, {}, "no right")
