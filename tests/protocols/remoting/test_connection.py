"""The connection: order of replies, deadlines, bounds, and peers that violate the protocol."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.admin.message import Viewed, ViewMessage
from domain.client.membership import Members, MembersChanged, QueryMembers
from domain.command import Disconnected, Send
from domain.errors import ConfigError, ErrorCode, Failure
from domain.event import Refused
from domain.limits import SECOND_NS
from protocols.adapter import Peer
from protocols.host_shares import SHARED_BYTES_MAX
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.dispatch import READERS
from protocols.remoting.framed_transport import REASONS_CLOSED
from protocols.remoting.wire.frame import FrameDecoder
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.clients.test_send import V2
from tests.protocols.remoting.frames import BORN_HOST, adapter, connection, fields, one, refused_reply, replies, reply, request

STREAM = (
    request(310, V2, b"first", serialize=BINARY)
    + request(38, {"consumerGroup": "g"}, opaque=8)
    + request(310, V2, b"second", serialize=JSON)
    + request(310, V2, b"third", serialize=BINARY)
)


@given(st.lists(st.integers(1, 200), max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_split_gives_the_same_commands(cuts: list[int]) -> None:
    conn = connection()
    found: list[object] = []
    at = 0
    for size in [*cuts, len(STREAM)]:
        if STREAM[at : at + size]:
            for command in conn.receive(STREAM[at : at + size], 1):
                found.append(command.messages[0].body if isinstance(command, Send) else type(command))
        at += size
    assert found == [b"first", QueryMembers, b"second", b"third"]


@given(st.sampled_from([*sorted(READERS), 10, 310, 320, 9999]), st.binary(max_size=80), st.sampled_from([JSON, BINARY]))
@settings(max_examples=100, deadline=None)
def test_no_body_raises_and_a_request_has_one_outcome(code: int, body: bytes, serialize: int) -> None:
    conn = connection()
    commands = conn.receive(request(code, V2, body, serialize=serialize), 1)
    assert (len(commands) > 0) != (len(replies(conn)) > 0)


@given(
    st.sampled_from(sorted(READERS)),
    st.dictionaries(
        st.sampled_from(
            ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "extraInfo", "offset", "attributes",
             "invisibleTime", "pollTime", "subscription", "brokerName", "brokerAddr", "clusterName", "brokerId", "perm",
             "readQueueNums", "writeQueueNums", "bodyCrc32", "compressed", "group", "delayLevel", "namespace", "key", "value"]
        ),
        st.sampled_from(["1", "-1", "x", "99999999999999999999", "true", "1 2 3 4 0 b 1 2", "+a=b,-c", "a:1", "\u0663", "*"]),
    ),
    st.binary(max_size=30),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_no_fields_raise(code: int, given_fields: dict[str, str], body: bytes) -> None:
    conn = connection()
    commands = conn.receive(request(code, given_fields, body), 1)
    assert (len(commands) > 0) != (len(replies(conn)) > 0)


@given(st.binary(min_size=1, max_size=100))
@settings(max_examples=100, deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    conn = connection()
    for command in conn.receive(data, 1):
        if isinstance(command, Disconnected):
            assert command.reason in REASONS_CLOSED
            assert conn.closed


def test_an_unknown_code_is_answered_3_with_a_reason() -> None:
    frame = refused_reply(9999)
    assert frame.code == codes.NOT_SUPPORTED
    assert "9999" in frame.remark


def test_a_oneway_request_of_an_unknown_code_is_not_answered(conn: RemotingConnection) -> None:
    assert conn.receive(request(9999, flag=2), 1) == []
    assert replies(conn) == []


def test_replies_of_the_client_are_no_requests(conn: RemotingConnection) -> None:
    assert conn.receive(request(0, flag=1), 1) == []
    assert replies(conn) == []
    assert not conn.closed


def test_a_broken_stream_closes_without_a_reply(conn: RemotingConnection) -> None:
    commands = conn.receive(request(38, {"consumerGroup": "g"}) + b"GET / HTTP/1.1\r\n", 1)
    assert isinstance(commands[0], QueryMembers)
    assert commands[1] == Disconnected("frame-length")
    assert conn.closed
    assert conn.receive(request(38), 2) == ()


def test_end_of_stream_is_reported_once(conn: RemotingConnection) -> None:
    assert conn.receive(b"", 1) == (Disconnected("end-of-stream"),)
    assert conn.receive(b"", 1) == ()


def test_a_connection_that_is_idle_for_two_minutes_is_closed(conn: RemotingConnection) -> None:
    assert conn.deadline() == 120 * SECOND_NS
    assert conn.expire(119 * SECOND_NS) == ()
    conn.receive(request(9999), 100 * SECOND_NS)
    assert conn.deadline() == 220 * SECOND_NS
    assert conn.expire(220 * SECOND_NS) == (Disconnected("idle"),)
    assert conn.deadline() is None


def test_a_frame_that_takes_more_than_ten_seconds_closes_the_connection(conn: RemotingConnection) -> None:
    data = request(38, {"consumerGroup": "g"})
    for second in range(9):
        assert conn.receive(data[second : second + 1], second * SECOND_NS) == []
    assert conn.deadline() == 10 * SECOND_NS
    assert conn.expire(10 * SECOND_NS) == (Disconnected("frame-timeout"),)


def test_a_complete_frame_stops_the_frame_clock(conn: RemotingConnection) -> None:
    data = request(38, {"consumerGroup": "g"})
    conn.receive(data[:5], 0)
    assert len(conn.receive(data[5:] + data[:3], 5 * SECOND_NS)) == 1
    assert conn.deadline() == 15 * SECOND_NS


def test_the_time_in_which_nothing_is_read_is_not_that_of_an_incomplete_frame() -> None:
    conn = connection(requests_max=1)
    data = request(38, {"consumerGroup": "g"})
    (query,) = conn.receive(data + data[:9], SECOND_NS)
    assert isinstance(query, QueryMembers)
    assert not conn.reading
    assert conn.deadline() == 121 * SECOND_NS
    conn.answer(Members(query.ticket, []), 30 * SECOND_NS)
    assert conn.reading
    assert conn.deadline() == 40 * SECOND_NS
    assert conn.expire(40 * SECOND_NS) == (Disconnected("frame-timeout"),)


def test_too_many_unanswered_requests_pause_reading() -> None:
    conn = connection(requests_max=2)
    first = one(conn, request(38, {"consumerGroup": "g"}))
    assert conn.reading
    one(conn, request(38, {"consumerGroup": "g"}))
    assert not conn.reading
    assert isinstance(first, QueryMembers)
    conn.answer(Members(first.ticket, ["a"]), 1)
    assert conn.reading


def test_a_refusal_carries_its_code_and_text(conn: RemotingConnection) -> None:
    command = one(conn, request(351, {"topic": "T"}))
    conn.answer(Refused(command.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND, "topic T does not exist")), 1)
    frame = reply(conn)
    assert (frame.code, frame.remark) == (17, "topic T does not exist")


def test_a_change_of_members_is_a_oneway_request_to_the_client(conn: RemotingConnection) -> None:
    conn.answer(MembersChanged(None, "g"), 1)
    conn.answer(MembersChanged(None, "h"), 1)
    first, second = replies(conn)
    assert (first.code, first.flag, fields(first)) == (40, 2, {"consumerGroup": "g"})
    assert first.opaque != second.opaque


def test_nothing_is_written_after_the_end(conn: RemotingConnection) -> None:
    command = one(conn, request(38, {"consumerGroup": "g"}))
    conn.receive(b"", 1)
    assert isinstance(command, QueryMembers)
    conn.answer(Members(command.ticket, []), 2)
    assert replies(conn) == []


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="idle_seconds"):
        connection(idle_second=1)
    with pytest.raises(ConfigError):
        connection(frame_bytes_max=64 * 1024 * 1024)


def test_unread_answers_are_bounded_except_small_ones(conn: RemotingConnection) -> None:
    record = bytes(88) + bytes(4 * 1024 * 1024)
    ask = request(33, {"offset": "900"})
    codes_told: list[int] = []
    for _ in range(40):
        command = one(conn, ask, ViewMessage)
        conn.answer(Viewed(command.ticket, record), 1)
    members = one(conn, request(38, {"consumerGroup": "g"}), QueryMembers)
    conn.answer(Members(members.ticket, ["a"]), 1)
    out = conn.outgoing()
    assert sum(map(len, out)) <= SHARED_BYTES_MAX // 2 + len(record)
    for data in out:
        (frame,) = FrameDecoder(1 << 24).feed(data)
        codes_told.append(frame.code)
    whole = codes_told.count(codes.SUCCESS) - 1
    assert 6 <= whole <= 8, "a host gets half of the bound"
    assert codes_told == [codes.SUCCESS] * whole + [codes.FLOW_CONTROL] * (40 - whole) + [codes.SUCCESS]
    again = one(conn, ask, ViewMessage)
    conn.answer(Viewed(again.ticket, record), 1)
    assert reply(conn).code == codes.SUCCESS, "what was written makes room"


def test_unread_answers_of_all_connections_share_one_bound() -> None:
    node = adapter()
    record, ask = bytes(88) + bytes(1 << 20), request(33, {"offset": "900"})
    connections = [node.connect(Peer(f"10.0.0.{number % 3}", number, BORN_HOST), 0) for number in range(150)]
    for conn in connections:
        command = one(conn, ask, ViewMessage)
        conn.answer(Viewed(command.ticket, record), 1)
    out = [(conn, data) for conn in connections for data in conn.outgoing()]
    by_host = [sum(len(data) for conn, data in out if connections.index(conn) % 3 == host) for host in range(3)]
    assert SHARED_BYTES_MAX // 2 < sum(by_host) <= SHARED_BYTES_MAX
    assert min(by_host) >= SHARED_BYTES_MAX // 8, "no host takes all of it"
    command = one(connections[-1], ask, ViewMessage)
    connections[-1].answer(Viewed(command.ticket, record), 1)
    assert reply(connections[-1]).code == codes.SUCCESS, "what was written makes room"
