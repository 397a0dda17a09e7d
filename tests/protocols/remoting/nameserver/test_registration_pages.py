"""Registration by pages (code 30012): reading them, and the answers."""

from __future__ import annotations

import json

import pytest

from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.nameserver.route import DataVersion, PageRegistered, RegisterPage, TopicQueues
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.nameserver.registration import PAGE_TOPICS_MAX, TOPICS_AT_ONCE
from tests.protocols.remoting.frames import exchanged, fields, one, refused_reply, reply, request

FIELDS = {
    "brokerName": "b-x", "brokerAddr": "10.0.0.7:10911", "clusterName": "c1", "brokerId": "0", "haServerAddr": "10.0.0.7:10912",
    "heartbeatTimeoutMillis": "120000", "stateVersion": "0", "timestamp": "1700000000000", "counter": "8", "page": "0",
    "last": "true",
}  # fmt: skip


def body(*rows: object) -> bytes:
    return json.dumps(rows).encode()


def test_a_page_of_the_whole_table(conn: RemotingConnection) -> None:
    command = one(
        conn,
        request(30012, FIELDS | {"page": "3"}, body(["T", 8, 4, 6, 0], ["U", 8, 4, 6, 0], ["V", 1, 1, 4, 2])),
        RegisterPage,
    )
    made, page = command.registration, command.page
    assert (made.cluster, made.broker, made.address, made.lease_ms) == ("c1", "b-x", "10.0.0.7:10911", 120_000)
    assert (made.version, made.topics) == (DataVersion(0, 1_700_000_000_000, 8), None)
    assert (page.number, page.base, page.last, page.gone) == (3, None, True, [])
    assert page.topics == {
        "T": TopicQueues("b-x", 8, 4, 6), "U": TopicQueues("b-x", 8, 4, 6), "V": TopicQueues("b-x", 1, 1, 4, 2),
    }  # fmt: skip
    assert page.topics["T"] is page.topics["U"]


def test_changes_and_their_answers(conn: RemotingConnection) -> None:
    command = one(conn, request(30012, FIELDS | {"base": "7", "last": "false"}, body(["T", 8, 4, 6, 0], ["U"])), RegisterPage)
    assert (command.page.base, command.page.last, command.page.gone) == (7, False, ["U"])
    conn.answer(PageRegistered(command.ticket, True), 1)
    frame = reply(conn)
    assert (frame.code, fields(frame)) == (0, {"taken": "true"})
    command = one(conn, request(30012, FIELDS | {"base": "0"}), RegisterPage)
    assert (command.page.base, command.page.topics) == (0, {})
    conn.answer(PageRegistered(command.ticket, False), 1)
    assert fields(reply(conn)) == {"taken": "false"}
    assert exchanged(30012, FIELDS, RegisterPage, Refused(None, Failure(ErrorCode.QUOTA, "too many"))).code == 215


@pytest.mark.parametrize(
    ("change", "data"),
    [
        ({"counter": ""}, b""),
        ({"counter": "x"}, b""),
        ({"base": "x"}, b""),
        ({"brokerName": "../x"}, b""),
        ({"brokerAddr": "nowhere"}, b""),
        ({}, b"{}"),
        ({}, b"["),
        ({}, b"[[]]"),
        ({}, b"[1]"),
        ({}, body(["../etc", 1, 1, 6, 0])),
        ({}, body(["T", 1, 1, 6])),
        ({}, body(["T", 1, 1, 6, 0, 0])),
        ({}, body(["T", 1, 1, 6, -1])),
        ({}, body(["T", 1, 1, 6, True])),
        ({}, body(["T", 1, 1.5, 6, 0])),
        ({}, body(["T", 1 << 31, 1, 6, 0])),
        ({}, body(*[["T", 1, 1, 6, 0]] * (PAGE_TOPICS_MAX + 1))),
    ],
)
def test_a_page_that_is_wrong_is_refused(change: dict[str, str], data: bytes) -> None:
    assert refused_reply(30012, FIELDS | change, data).code in (1, 29)


def test_a_long_page_is_read_over_several_turns(conn: RemotingConnection) -> None:
    assert conn.receive(request(30012, FIELDS, body(*[[f"T{at}", 1, 1, 6, 0] for at in range(4 * TOPICS_AT_ONCE)])), 1) == []
    turns = 0
    commands = conn.expire(1)
    while not commands:
        turns += 1
        commands = conn.expire(1)
    (command,) = commands
    assert isinstance(command, RegisterPage)
    assert len(command.page.topics) == 4 * TOPICS_AT_ONCE
    assert turns >= 2
