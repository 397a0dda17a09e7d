"""Request codes of Headgate."""

from __future__ import annotations

import json

import pytest

from domain.admin.topic import Bounds, QueryBounds
from domain.command import HoldQueues, Pull
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import connection, one, refused_reply, reply, request


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_the_epoch_and_the_bounds_of_a_topic(conn: RemotingConnection, serialize: int) -> None:
    command = one(conn, request(30000, {"topic": "T"}, serialize=serialize), QueryBounds)
    assert (command.topic, command.queue_id) == ("T", -1)
    conn.answer(Bounds(command.ticket, [(0, 7, 42), (1, 0, 0)], 1_795_328_262_147), 1)
    frame = reply(conn)
    assert (frame.code, json.loads(frame.body)) == (0, {"epoch": 1_795_328_262_147, "queues": [[0, 7, 42], [1, 0, 0]]})


def test_a_topic_that_does_not_exist_is_an_error_and_not_an_empty_answer(conn: RemotingConnection) -> None:
    command = one(conn, request(30000, {"topic": "T"}), QueryBounds)
    conn.answer(Refused(command.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND, "topic T does not exist")), 1)
    assert reply(conn).code == 17


def test_a_pull_may_say_the_epoch_of_its_offset() -> None:
    asked = {"topic": "T", "consumerGroup": "g", "queueId": "0", "queueOffset": "5", "maxMsgNums": "1", "sysFlag": "4"}
    plain = one(connection(), request(11, asked))
    fenced = one(connection(), request(11, {**asked, "hgEpoch": "1795328262147"}))
    assert isinstance(plain, Pull)
    assert isinstance(fenced, Pull)
    assert (plain.epoch, fenced.epoch) == (-1, 1_795_328_262_147)


def test_other_codes_of_the_range_are_not_supported() -> None:
    assert refused_reply(30063, {}).code == 3


def test_a_read_hold(conn: RemotingConnection) -> None:
    asked = {"topic": "T", "hold": "r", "holdMs": "60000", "hgEpoch": "5"}
    command = one(conn, request(30001, asked, b"[[0,17],[3,4]]"), HoldQueues)
    assert (command.name, command.topic, command.offsets, command.hold_ms, command.epoch) == (
        "r",
        "T",
        {0: 17, 3: 4},
        60_000,
        5,
    )
    conn.answer(Done(command.ticket), 1)
    assert reply(conn).code == 0


@pytest.mark.parametrize("body", [b"{", b"[1]", b'[["a",1]]', b"[[1]]", b"[" * 100_000, b"5", b"[[1,null]]"])
def test_a_body_that_is_no_list_of_queues_is_refused(body: bytes) -> None:
    assert refused_reply(30001, {"topic": "T", "hold": "r", "holdMs": "1"}, body).code == 29
