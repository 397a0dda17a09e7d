"""The leader's side: what followers send becomes commands, and what is malformed is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.replication.message import ERAS_MAX, Era, Follow, LogBytes, LogHeld
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.dispatch import READERS
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.nodes.replication.dispatch import READERS as REPLICA_READERS
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, JSON
from tests.protocols.remoting.frames import replies, reply, request
from tests.protocols.remoting.nodes.replication.wire import FOLLOW, asked, follows, helds, leader

FIELDS = {"group": "broker-a", "replica": "2", "incarnation": "77", "epoch": "5", "first": "0", "end": "900"}
ERAS = struct.pack(">qqqq", 3, 0, 5, 700)


@given(follows())
def test_a_follow_arrives_as_it_was_sent(follow: Follow) -> None:
    assert replace(asked(leader(), FollowDialog(), follow), ticket=None) == follow


@given(helds())
def test_what_a_follower_holds_arrives_as_it_was_sent(held: LogHeld) -> None:
    conn = leader()
    assert list(conn.receive(FollowDialog().held(held), 1)) == [held]
    assert replies(conn) == []


def test_the_longest_list_of_eras_arrives() -> None:
    eras = tuple(Era(each, each) for each in range(ERAS_MAX))
    follow = replace(FOLLOW, eras=eras, end=ERAS_MAX)
    assert asked(leader(), FollowDialog(), follow).eras == eras


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_the_form_of_a_follow(serialize: int) -> None:
    (command,) = leader().receive(request(30025, FIELDS, ERAS, serialize=serialize), 1)
    assert isinstance(command, Follow)
    assert replace(command, ticket=None) == FOLLOW


def test_the_form_of_a_part_of_the_log() -> None:
    conn = leader()
    conn.answer(LogBytes(None, 5, 900, 700, 100, b"data"), 1)
    frame = reply(conn)
    assert (frame.code, frame.oneway, frame.ext) == (30026, True, b"")
    assert frame.body == struct.pack(">qqqq", 5, 900, 700, 100) + b"data"


def test_the_form_of_what_a_follower_holds() -> None:
    body = struct.pack(">qqq", 5, 900, 800)
    assert list(leader().receive(request(30027, {}, body, flag=FLAG_ONEWAY), 1)) == [LogHeld(5, 900, 800)]


@pytest.mark.parametrize("name", sorted(FIELDS))
@pytest.mark.parametrize("value", ["", "-1", "many", "1.5", str(1 << 63), None])
def test_a_field_that_is_missing_or_no_number_is_refused(name: str, value: str | None) -> None:
    fields = {**FIELDS, name: value} if value is not None else {key: FIELDS[key] for key in FIELDS if key != name}
    conn = leader()
    if name == "group" and value:
        assert len(conn.receive(request(30025, fields, ERAS), 1)) == 1, "any text may name a group"
        return
    assert conn.receive(request(30025, fields, ERAS), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    "changed", [{"replica": "0"}, {"incarnation": "0"}, {"first": "901"}, {"end": "699"}], ids=lambda each: next(iter(each))
)
def test_a_log_that_cannot_be_is_refused(changed: dict[str, str]) -> None:
    conn = leader()
    assert conn.receive(request(30025, {**FIELDS, **changed}, ERAS), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    "body",
    [
        ERAS[:-1],
        ERAS + b"\0",
        struct.pack(">qqqq", 3, 0, 3, 700),
        struct.pack(">qqqq", 5, 0, 3, 700),
        struct.pack(">qqqq", 3, 700, 5, 0),
        struct.pack(">qq", -1, 0),
        struct.pack(">qq", 3, -1),
        struct.pack(">qq", 3, 901),
        b"".join(struct.pack(">qq", each, 0) for each in range(ERAS_MAX + 1)),
    ],
    ids=[
        "cut off", "too long", "an epoch twice", "epochs descend", "begins descend", "epoch below 0", "begin below 0",
        "behind the end", "too many",
    ],
)  # fmt: skip
def test_eras_that_cannot_be_are_refused(body: bytes) -> None:
    conn = leader()
    assert conn.receive(request(30025, {**FIELDS, "end": "900"}, body), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    "body",
    [
        b"", struct.pack(">qq", 5, 900), struct.pack(">qqqq", 5, 900, 800, 0), struct.pack(">qqq", -1, 900, 800),
        struct.pack(">qqq", 5, -1, -1), struct.pack(">qqq", 5, 900, -1), struct.pack(">qqq", 5, 900, 901),
    ],
    ids=["empty", "short", "long", "epoch below 0", "positions below 0", "synced below 0", "more durable than written"],
)  # fmt: skip
def test_what_no_follower_can_hold_is_refused(body: bytes) -> None:
    conn = leader()
    assert conn.receive(request(30027, {}, body, flag=FLAG_ONEWAY), 1) == []
    assert replies(conn) == [], "nobody waits for an answer"


def test_a_word_of_the_wrong_kind_is_refused() -> None:
    conn = leader()
    assert conn.receive(request(30027, {}, struct.pack(">qqq", 5, 900, 800)), 1) == []
    assert reply(conn).code == codes.INVALID_PARAMETER
    assert conn.receive(request(30025, FIELDS, ERAS, flag=FLAG_ONEWAY), 1) == []
    assert replies(conn) == []


@given(st.sampled_from(sorted(REPLICA_READERS)), st.binary(max_size=80), st.sampled_from([JSON, BINARY]))
def test_no_body_raises_and_a_request_has_one_outcome(code: int, body: bytes, serialize: int) -> None:
    conn = leader()
    commands = conn.receive(request(code, FIELDS, body, serialize=serialize), 1)
    assert (len(commands) > 0) != (len(replies(conn)) > 0)


@pytest.mark.parametrize("code", [30025, 30026, 30027, 30028, 30029, 30030])
def test_an_ordinary_node_does_not_know_these_requests(conn: RemotingConnection, code: int) -> None:
    assert conn.receive(request(code, FIELDS, ERAS), 1) == []
    assert reply(conn).code == codes.NOT_SUPPORTED
    conn.receive(request(code, FIELDS, ERAS, flag=FLAG_ONEWAY), 1)
    assert replies(conn) == []


def test_the_port_of_a_replica_knows_no_others() -> None:
    assert sorted(REPLICA_READERS) == [30025, 30027, 30030]
    assert set(REPLICA_READERS).isdisjoint(READERS)
    for code in (codes.PULL, codes.GET_ROUTE, codes.GREET_NODE, codes.LOG_BYTES, codes.GET_CONTROLLER):
        conn = leader()
        assert conn.receive(request(code, FIELDS), 1) == []
        assert reply(conn).code == codes.NOT_SUPPORTED
