"""Sends: SendMessageRequestHeader and its V2 in both encodings, batches, replies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import UNSENDABLE_TOPICS
from domain.command import Send, SendRetry
from domain.errors import ErrorCode, Failure
from domain.event import Refused, Sent
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Placed
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.header import BINARY, JSON, encode_binary, encode_ext
from tests.protocols.remoting.frames import (
    BORN_HOST,
    PEER,
    adapter,
    connection,
    fields,
    one,
    refused_reply,
    replies,
    reply,
    request,
)

PROPERTIES = "UNIQ_KEY\x010A00000900000000000000000000ABCD\x02WAIT\x01true\x02TAGS\x01TagA\x02"
REGION_PROPERTY = b"MSG_REGION\x01DefaultRegion\x02"
"""The property that the broker adds: consumers write no trace of a message without it."""
V2 = {
    "a": "pg", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000", "h": "0",
    "i": PROPERTIES, "j": "0", "k": "false", "m": "false", "n": "b-a",
}  # fmt: skip
V1 = {
    "producerGroup": "pg", "topic": "TopicTest", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "3",
    "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": PROPERTIES, "reconsumeTimes": "0",
    "unitMode": "false", "batch": "false", "bname": "b-a",
}  # fmt: skip
PLACED = Placed(3, 42, 0x1234, 1_700_000_000_001, "0A00000900000000000000000000ABCD")
HALF = "TRAN_MSG\x01true\x02UNIQ_KEY\x01u\x02"
OFFSET_ID = "0A00000100002A9F0000000000001234"


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize(("code", "header"), [(10, V1), (310, V2)])
def test_a_send_becomes_one_message(conn: RemotingConnection, serialize: int, code: int, header: dict[str, str]) -> None:
    for turn in range(3):
        command = one(conn, request(code, header, b"body", serialize=serialize, opaque=turn), Send)
        assert command.wait
        (message,) = command.messages
        assert (message.topic, message.queue_id, message.body) == ("TopicTest", 3, b"body")
        assert message.properties == PROPERTIES.encode() + REGION_PROPERTY
        assert message.message_id == "0A00000900000000000000000000ABCD"
        assert message.born_ms == 1_700_000_000_000
        assert message.born_host == BORN_HOST
        assert (message.flag, message.sys_flag, message.reconsume_times) == (0, 0, 0)
        conn.answer(Sent(command.ticket, [PLACED]), 2)
        frame = reply(conn)
        assert (frame.code, frame.opaque, frame.flag, frame.serialize) == (0, turn, 1, serialize)
        assert fields(frame) == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": OFFSET_ID,
            "queueId": "3",
            "queueOffset": "42",
            "transactionId": "0A00000900000000000000000000ABCD",
        }


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "b": st.sampled_from(["T1", "T2"]),
                "d": st.sampled_from(["", "1", "4"]),
                "e": st.integers(-1, 3).map(str),
                "f": st.sampled_from(["0", "1", "769"]),
                "g": st.integers(0, 1_900_000_000_000).map(str),
                "h": st.sampled_from(["0", "7"]),
                "j": st.sampled_from(["0", "2"]),
                "i": st.sampled_from(
                    [
                        "",
                        "KEYS\x01k\x02",
                        "TAGS\x01a",
                        "UNIQ_KEY\x01u\x02",
                        "HG_X\x01y\x02A\x01b\x02",
                        "mq-content-type\x01a/b\x02",
                    ]
                ),
                "n": st.sampled_from(["b-a", "g\x00\x01g\x00\x00\x00\x0d1700000000000"]),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_a_cached_header_gives_the_same_message_as_a_decoded_one(headers: list[dict[str, str]]) -> None:
    """Prefixes and suffixes of headers are cached: every message must be the same as without a cache."""
    quick = adapter().connect(PEER, 0)
    for header in headers:
        sent = {"a": "pg", **header}
        known = one(quick, request(310, sent, b"x", serialize=BINARY))
        fresh = one(connection(), request(310, sent, b"x", serialize=JSON))
        assert isinstance(known, Send)
        assert isinstance(fresh, Send)
        for name in ("topic", "queue_id", "properties", "message_id", "sys_flag", "flag", "born_ms", "reconsume_times"):
            assert getattr(known.messages[0], name) == getattr(fresh.messages[0], name), name
        assert known.queues == fresh.queues == int(header["d"] or "0")


def test_the_older_header_says_how_many_queues_a_new_topic_has_too() -> None:
    sent = {"producerGroup": "pg", "topic": "T", "defaultTopicQueueNums": "3", "queueId": "0"}
    command = one(connection(), request(10, sent, b"x"), Send)
    assert command.queues == 3


@pytest.mark.parametrize("topic", sorted(UNSENDABLE_TOPICS))
def test_topics_of_the_system_that_take_no_messages_are_forbidden(topic: str) -> None:
    frame = refused_reply(310, {**V2, "b": topic}, b"x")
    assert (frame.code, frame.remark) == (16, f"Sending message to topic[{topic}] is forbidden.")


def test_what_a_sender_may_not_set_is_left_out() -> None:
    stored = "POP_CK\x011 2 3\x02A\x01b\x02HG_PROTOCOL\x01mqtt\x02"
    for serialize in (JSON, BINARY):
        conn = connection()
        for _ in range(2):
            command = one(conn, request(310, {**V2, "i": stored}, b"", serialize=serialize), Send)
            assert command.messages[0].properties == b"A\x01b\x02" + REGION_PROPERTY
            assert command.messages[0].message_id == ""


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_content_type_and_expiry_are_stored_as_those_of_other_protocols(conn: RemotingConnection, serialize: int) -> None:
    for _ in range(2):
        assert one(conn, request(310, V2, b"x", serialize=serialize))
        given = "mq-expires-at\x012026-11-18T11:06:40.123Z\x02A\x01b\x02mq-content-type\x01a/b\x02"
        command = one(conn, request(310, {**V2, "i": given}, b"x", serialize=serialize), Send)
        assert properties.decode(command.messages[0].properties) == {
            "A": "b", "HG_CONTENT_TYPE": "a/b", "HG_EXPIRE_MS": "1795000000123", "MSG_REGION": "DefaultRegion",
        }  # fmt: skip
        wrong = request(310, {**V2, "i": "mq-expires-at\x01soon\x02"}, b"x", serialize=serialize)
        assert conn.receive(wrong, 1) == []
        answers = replies(conn)
        assert (answers[-1].code, answers[-1].remark) == (
            codes.MESSAGE_ILLEGAL, "property mq-expires-at must be RFC 3339 or epoch milliseconds",
        )  # fmt: skip


def test_the_region_is_not_added_twice() -> None:
    stored = "MSG_REGION\x01Elsewhere\x02"
    for serialize in (JSON, BINARY):
        conn = connection()
        for _ in range(2):
            command = one(conn, request(310, {**V2, "i": stored}, b"", serialize=serialize), Send)
            assert command.messages[0].properties == stored.encode()


def test_host_and_inner_batch_bits_of_the_sender_do_not_count() -> None:
    command = one(connection(), request(310, {**V2, "f": str(0x301 | 0x30 | 0xC0)}), Send)
    assert command.messages[0].sys_flag == 0x301


@pytest.mark.parametrize(("code", "change"), [(310, {"f": "4"}), (310, {"f": "12"}), (320, {"m": "true", "f": "4", "i": HALF})])
def test_a_malformed_half_message_is_refused_and_not_delivered(code: int, change: dict[str, str]) -> None:
    body = b"" if code == 310 else b"\x00\x00\x00\x17" + bytes(15) + b"\x01x\x00\x00"
    assert refused_reply(code, {**V2, **change}, body).code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_half_messages_are_marked_however_often_and_their_neighbours_are_not(conn: RemotingConnection, serialize: int) -> None:
    for turn in range(6):
        change = ({"f": "0"}, {"f": "4", "i": HALF + "PGROUP\x01pg\x02"}, {"f": "0", "i": HALF})[turn % 3]
        command = one(conn, request(310, {**V2, **change}, b"x", serialize=serialize), Send)
        message = command.messages[0]
        assert message.sys_flag == (0 if turn % 3 == 0 else SYS_PREPARED)
        assert turn % 3 == 0 or properties.text(message.properties, "PGROUP") == "pg"


def test_a_oneway_send_is_not_answered(conn: RemotingConnection) -> None:
    command = one(conn, request(310, V2, b"x", serialize=BINARY, flag=2), Send)
    assert not command.wait
    conn.answer(Refused(command.ticket, Failure(ErrorCode.OVERLOADED)), 2)
    assert replies(conn) == []


BATCH = bytes.fromhex(
    "0000001e00000000000000000000000000000001780007544147530141020000001700000000000000000000000000000001790000"
)


def test_a_header_that_ends_within_the_length_of_its_properties_is_refused_with_a_warm_cache(conn: RemotingConnection) -> None:
    whole = request(310, V2, b"body", serialize=BINARY)
    one(conn, whole, Send)
    ext = encode_ext(V2)
    at = ext.index(b"\x00\x01i")
    for end in range(at + 3, at + 7):
        header = encode_binary(310, 0, 479, 7, 0, "", ext[:end])
        frame = (4 + len(header)).to_bytes(4, "big") + b"\x01" + len(header).to_bytes(3, "big") + header
        assert conn.receive(frame, 1) == []
        assert reply(conn).code == codes.INVALID_PARAMETER


def test_a_batch_becomes_consecutive_messages(conn: RemotingConnection) -> None:
    """The batch body of MessageDecoder.encodeMessages: "x" with TAGS=A, "y" without properties."""
    command = one(conn, request(320, {**V2, "i": "", "m": "true"}, BATCH), Send)
    assert [(each.body, each.properties, each.queue_id) for each in command.messages] == [
        (b"x", b"TAGS\x01A\x02" + REGION_PROPERTY, 3),
        (b"y", REGION_PROPERTY, 3),
    ]
    conn.answer(Sent(command.ticket, [PLACED, Placed(3, 43, 0x2000, 1, "B")]), 2)
    frame = reply(conn)
    assert fields(frame)["msgId"] == f"{OFFSET_ID},0A00000100002A9F0000000000002000"
    assert fields(frame)["queueOffset"] == "42"


def test_a_batch_of_the_client_for_cpp_is_one_by_its_field() -> None:
    """The C++ client sends code 10, and writes `true` as 1."""
    command = one(connection(), request(10, {**V1, "properties": "", "unitMode": "0", "batch": "1"}, BATCH), Send)
    assert [each.body for each in command.messages] == [b"x", b"y"]
    command = one(connection(), request(10, {**V1, "unitMode": "0", "batch": "0"}, BATCH), Send)
    assert [each.body for each in command.messages] == [BATCH]


@pytest.mark.parametrize(
    "body",
    [b"", BATCH[:-1], BATCH + b"\x00", b"\xff" * 30, b"\x00" * 30, BATCH[:30] + b"\x00\x00\x00\x16" + b"\xff" * 18],
)
def test_a_batch_with_wrong_lengths_is_refused(body: bytes) -> None:
    assert refused_reply(320, V2, body).code == codes.MESSAGE_ILLEGAL


def test_a_batch_may_not_go_to_a_retry_topic() -> None:
    assert refused_reply(320, {**V2, "b": "%RETRY%g"}, BATCH).code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize(("limit", "most"), [({"l": "16"}, 16), ({}, -1)])
def test_a_message_for_a_retry_topic_is_its_groups_retry(limit: dict[str, str], most: int) -> None:
    header = {**{key: value for key, value in V2.items() if key != "l"}, **limit, "b": "%RETRY%g", "j": "17"}
    command = one(connection(), request(310, header, b"x", serialize=BINARY), SendRetry)
    assert (command.group, command.retry_max, command.wait) == ("g", most, True)
    assert command.messages[0].reconsume_times == 17


@pytest.mark.parametrize("change", [{"b": ""}, {"e": "x"}, {"g": "1e3"}, {"f": "99999999999999999999"}, {"h": "3000000000"}])
def test_illegal_fields_are_answered_29(change: dict[str, str]) -> None:
    for serialize in (JSON, BINARY):
        conn = connection()
        assert conn.receive(request(310, {**V2, **change}, serialize=serialize), 1) == []
        assert reply(conn).code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(("copies", "code"), [(False, codes.FLUSH_DISK_TIMEOUT), (True, codes.FLUSH_SLAVE_TIMEOUT)])
def test_a_flush_timeout_carries_every_field_that_clients_unbox(conn: RemotingConnection, copies: bool, code: int) -> None:
    command = one(conn, request(310, V2), Send)
    conn.answer(Refused(command.ticket, Failure(ErrorCode.FLUSH_TIMEOUT, "it is slow", copies=copies)), 2)
    frame = reply(conn)
    assert (frame.code, frame.remark) == (code, "it is slow")
    assert {"msgId", "queueId", "queueOffset"} <= set(fields(frame))


def test_an_id_that_json_escapes_is_replied_unchanged(conn: RemotingConnection) -> None:
    command = one(conn, request(310, V2), Send)
    conn.answer(Sent(command.ticket, [Placed(0, 0, 0, 0, 'a"b\\ü')]), 2)
    assert fields(reply(conn))["transactionId"] == 'a"b\\ü'


@pytest.mark.parametrize("code", [10, 310])
def test_only_the_node_sends_to_the_retry_topic_of_a_group_for_a_topic(code: int) -> None:
    header = {**V1, "topic": "%RETRY%g+t"} if code == 10 else {**V2, "b": "%RETRY%g+t"}
    assert refused_reply(code, header, b"x").code == codes.NO_PERMISSION
    batch = {**V2, "b": "%RETRY%g+t", "m": "true"}
    assert refused_reply(320, batch, b"").code == codes.NO_PERMISSION


@pytest.mark.parametrize("is_cached", [False, True])
def test_properties_that_are_not_utf8_are_refused_and_not_changed(is_cached: bool) -> None:
    conn = connection()
    if is_cached:
        one(conn, request(codes.SEND_V2, V2, b"body", serialize=BINARY), Send)
    odd = {**V2, "i": "KEYS\x01\udcff\x02"}
    assert conn.receive(request(codes.SEND_V2, odd, b"body", serialize=BINARY), 1) == []
    assert reply(conn).code == codes.MESSAGE_ILLEGAL
    sent = {**V2, "i": "KEYS\x01\ufffd\x02"}
    (message,) = one(conn, request(codes.SEND_V2, sent, b"body", serialize=BINARY), Send).messages
    assert properties.decode(message.properties)["KEYS"] == "\ufffd"
