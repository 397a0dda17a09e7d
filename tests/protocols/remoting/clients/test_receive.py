"""POP: PopMessageRequestHeader, ExtraInfoUtil's strings, BatchAck's bit sets."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from domain import limits
from domain.access.principal import GATEWAY
from domain.command import Acknowledge, AwaitMessages, Extend, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Extended, Leased, MessagesWaiting, Received, Settled
from domain.message import property as properties
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import Record, check, encode
from protocols.remoting import codes
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.wire.frame import FrameDecoder
from protocols.remoting.wire.header import BINARY, JSON
from tests.protocols.remoting.frames import BORN_HOST, connection, exchanged, fields, one, refused_reply, reply, request

POP = {
    "consumerGroup": "g", "topic": "T", "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "60000", "pollTime": "15000",
    "bornTime": "1700000000000", "initMode": "0", "exp": "A", "expType": "TAG", "order": "false",
}  # fmt: skip


def leased(queue_id: int, offset: int, *, retry: int = 0, pop_ms: int = 1000, attempt: int = 1, start: int = 5) -> Leased:
    topic = ("T", "%RETRY%g_T", "%RETRY%g+T")[retry]
    record = encode(Message(topic, b"x", b"TAGS\x01A\x02", queue_id=queue_id), offset, offset * 100, 1, BORN_HOST)
    return Leased(record, Receipt(start, pop_ms, 60_000, 0, retry, "b-a", queue_id, offset), attempt)


def answered(messages: Sequence[Leased], **change: str) -> tuple[int, dict[str, str], bytes]:
    frame = exchanged(200050, {**POP, **change}, Receive, Received(None, list(messages), 1000, 60_000, 3))
    return frame.code, fields(frame), frame.body


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_a_pop_in_both_encodings(serialize: int) -> None:
    command = one(connection(), request(200050, POP, serialize=serialize), Receive)
    assert (command.group, command.topic, command.limit, command.queue_id) == ("g", "T", 32, -1)
    assert (command.invisible_ms, command.wait_ms, command.from_first, command.ordered) == (60_000, 15_000, True, False)
    assert command.filter is not None


def test_more_than_32_messages_are_refused() -> None:
    assert refused_reply(200050, {**POP, "maxMsgNums": "33"}).code == codes.INVALID_PARAMETER


def test_a_pop_without_messages_is_210_with_every_number_of_the_header() -> None:
    code, found, body = answered([])
    assert (code, body) == (codes.POLLING_TIMEOUT, b"")
    assert found == {"popTime": "1000", "invisibleTime": "60000", "reviveQid": "0", "restNum": "0"}


def test_one_segment_for_each_retry_flag_and_queue() -> None:
    """ExtraInfoUtil refuses a duplicate key."""
    code, found, body = answered([leased(0, 5), leased(1, 7, start=7), leased(0, 6)])
    assert code == 0
    assert found == {
        "popTime": "1000", "invisibleTime": "60000", "reviveQid": "0", "restNum": "3",
        "startOffsetInfo": "0 0 5;0 1 7", "msgOffsetInfo": "0 0 5,6;0 1 7",
    }  # fmt: skip
    assert len(body) == 3 * len(leased(0, 5).record)


def test_an_ordered_pop_tells_how_often_each_was_delivered() -> None:
    _, found, _ = answered([leased(2, 5, attempt=3), leased(2, 6)], order="true")
    assert found["orderCountInfo"] == "0 qo2%5 2;0 qo2%6 0;0 2 2"


@pytest.mark.parametrize("retry", [1, 2])
def test_messages_of_the_retry_topic_come_under_the_topic_asked_for_with_their_receipt(retry: int) -> None:
    _, found, body = answered([leased(0, 9, retry=retry)])
    assert found["msgOffsetInfo"] == f"{retry} 0 9"
    assert check(body)
    record = Record(body)
    assert (record.topic, record.body, record.queue_offset) == ("T", b"x", 9)
    assert properties.text(record.properties, "POP_CK") == f"5 1000 60000 0 {retry} b-a 0 9"
    assert properties.text(record.properties, "TAGS") == "A"


def test_messages_of_both_retry_topics_have_segments_of_their_own() -> None:
    _, found, _ = answered([leased(0, 5), leased(0, 9, retry=1), leased(0, 9, retry=2, start=9)])
    assert found["startOffsetInfo"] == "0 0 5;1 0 5;2 0 9"
    assert found["msgOffsetInfo"] == "0 0 5;1 0 9;2 0 9"


@pytest.mark.parametrize("end", [b"\x02", b""])
def test_a_client_is_sent_no_more_properties_than_it_can_read(end: bytes) -> None:
    """Java reads their length as a signed number of 16 bits. Earlier versions stored so many that the receipt has no room."""
    user = b"a\x01b\x02p\x01" + b"v" * (limits.PROPERTIES_BYTES_MAX - 8 - 20) + b"\x02"
    stored = user + b"1ST_POP_TIME\x01" + b"1" * (limits.PROPERTIES_BYTES_MAX - len(user) - 13 - len(end)) + end
    assert len(stored) == limits.PROPERTIES_BYTES_MAX
    record = encode(Message("%RETRY%g+T", b"x", stored, queue_id=0), 9, 900, 1, BORN_HOST)
    _, _, body = answered([Leased(record, Receipt(5, 1000, 60_000, 0, 2, "b-a", 0, 9), 1)])
    view = Record(body)
    assert check(body)
    assert len(view.properties) <= limits.PROPERTIES_BYTES_MAX
    assert properties.decode(view.properties) == {"a": "b", "POP_CK": "5 1000 60000 0 2 b-a 0 9"}


def test_a_message_leased_at_another_instant_carries_its_own_receipt() -> None:
    _, _, body = answered([leased(0, 5), leased(1, 7, pop_ms=1001)])
    size = int.from_bytes(body[:4], "big")
    assert properties.text(Record(body[:size]).properties, "POP_CK") == ""
    assert properties.text(Record(body[size:]).properties, "POP_CK") == "5 1001 60000 0 0 b-a 1 7"


@pytest.mark.parametrize("extra", ["5 1000 60000 0 0 b-a 2 9", "5 1000 60000 0 0 b-a 2"])
def test_acknowledging_by_receipt(conn: RemotingConnection, extra: str) -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "2", "extraInfo": extra, "offset": "9"}
    command = one(conn, request(200051, asked), Acknowledge)
    (receipt,) = command.receipts
    assert (receipt.queue_id, receipt.queue_offset, receipt.pop_ms, receipt.broker) == (2, 9, 1000, "b-a")
    conn.answer(Settled(command.ticket, [None]), 1)
    assert reply(conn).code == 0


def test_an_expired_receipt_is_no_message(conn: RemotingConnection) -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "2", "extraInfo": "5 1 60000 0 0 b-a 2 9", "offset": "9"}
    command = one(conn, request(200051, asked), Acknowledge)
    conn.answer(Settled(command.ticket, [Failure(ErrorCode.RECEIPT_EXPIRED, "another has it")]), 1)
    assert reply(conn).code == codes.NO_MESSAGE


@pytest.mark.parametrize(("retry", "topic"), [(1, "%RETRY%g_T"), (2, "%RETRY%g+T"), (2, "T")])
def test_a_message_of_the_retry_topic_is_settled_by_the_topic_that_it_retries(retry: int, topic: str) -> None:
    """Clients before 5.1 do not know `r` = 2, and name the topic itself."""
    extra = f"5 1 60000 0 {retry} b-a 0 9"
    asked = {"consumerGroup": "g", "topic": topic, "queueId": "0", "extraInfo": extra, "offset": "9"}
    command = one(connection(), request(200051, asked), Acknowledge)
    assert (command.topic, command.receipts[0].retry) == ("T", retry)
    longer = one(connection(), request(200053, {**asked, "invisibleTime": "5000"}), Extend)
    assert (longer.topic, longer.receipts[0].retry) == ("T", retry)
    ack = {"b": "CQI=", "c": "g", "it": 60000, "pt": 1, "q": 1, "r": str(retry), "rq": 3, "so": 100, "t": topic}
    together = one(connection(), request(200151, body=json.dumps({"acks": [ack]}).encode()), Acknowledge)
    assert (together.topic, {each.retry for each in together.receipts}) == ("T", {retry})


def test_a_batch_of_acknowledgements(conn: RemotingConnection) -> None:
    """BatchAck's bit set {0, 3, 9} is `CQI=`."""
    ack = {"b": "CQI=", "c": "g", "it": 60000, "pt": 1700000000000, "q": 1, "r": "0", "rq": 3, "so": 100, "t": "T"}
    commands = conn.receive(request(200151, body=json.dumps({"acks": [ack, {**ack, "q": 2}, {**ack, "c": "h"}]}).encode()), 1)
    first, second = commands
    assert isinstance(first, Acknowledge)
    assert isinstance(second, Acknowledge)
    assert [(each.queue_id, each.queue_offset) for each in first.receipts] == [
        (1, 100), (1, 103), (1, 109), (2, 100), (2, 103), (2, 109),
    ]  # fmt: skip
    assert second.group == "h"
    conn.answer(Settled(second.ticket, [None] * 3), 1)
    conn.answer(Settled(first.ticket, [None] * 5 + [Failure(ErrorCode.RECEIPT_EXPIRED)]), 1)
    assert reply(conn).code == codes.NO_MESSAGE


@pytest.mark.parametrize(
    ("ack", "code"),
    [
        ({"b": "", "c": "g", "t": "T"}, 208),
        ({"b": "*", "c": "g", "t": "T"}, 208),
        ({"b": "A", "c": "g", "t": "T"}, 29),
        ({"b": "CQI=", "c": "", "t": "T"}, 29),
        ({"b": "/" * 8000, "c": "g", "t": "T"}, 29),
        ({"b": "CQI=", "c": "g", "t": "T", "so": -5}, 29),
    ],
)
def test_bad_batches_are_answered(ack: dict[str, object], code: int) -> None:
    assert refused_reply(200151, body=json.dumps({"acks": [ack]}).encode()).code == code


def test_extending_a_lease(conn: RemotingConnection) -> None:
    asked = {
        "consumerGroup": "g", "topic": "T", "queueId": "2", "extraInfo": "5 1000 60000 0 0 b-a 2 9", "offset": "9",
        "invisibleTime": "5000",
    }  # fmt: skip
    command = one(conn, request(200053, asked), Extend)
    assert command.invisible_ms == 5000
    conn.answer(Extended(command.ticket, [Receipt(9, 2000, 5000, 0, 0, "b-a", 2, 9)]), 1)
    assert fields(reply(conn)) == {"popTime": "2000", "invisibleTime": "5000", "reviveQid": "0"}


@pytest.mark.parametrize("extra", ["", "x", "1 2 3", "1 2 3 4 5 b 6 x"])
def test_a_malformed_receipt_is_refused(extra: str) -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "2", "extraInfo": extra, "offset": "9"}
    assert refused_reply(200051, asked).code in (codes.MESSAGE_ILLEGAL, codes.INVALID_PARAMETER)


def test_a_notification_says_whether_messages_are_waiting(conn: RemotingConnection) -> None:
    asked = {"consumerGroup": "g", "topic": "T", "queueId": "-1", "pollTime": "100", "bornTime": "0"}
    command = one(conn, request(200054, asked), AwaitMessages)
    conn.answer(MessagesWaiting(command.ticket, True), 1)
    assert fields(reply(conn)) == {"hasMsg": "true", "pollingFull": "false"}


def test_leases_of_a_pop_are_returned_when_the_client_does_not_read(conn: RemotingConnection) -> None:
    data = encode(Message("T", bytes(4 << 20), b"", queue_id=0), 3, 300, 1, BORN_HOST)
    told: list[int] = []
    back: list[Receipt] = []
    for at in range(20):
        command = one(conn, request(200050, POP, opaque=at), Receive)
        receipt = Receipt(3, 1000, 60_000, 0, 0, "b-a", 0, at)
        conn.answer(Received(command.ticket, [Leased(data, receipt, 1)], 1000, 60_000), 1)
    assert conn.deadline() == 0
    for extend in conn.expire(1):
        assert isinstance(extend, Extend)
        assert (extend.group, extend.topic, extend.untold, extend.principal) == ("g", "T", True, GATEWAY)
        back += extend.receipts
        conn.answer(Extended(extend.ticket, list(extend.receipts)), 1)
    assert not conn.closed
    for part in conn.outgoing():
        (frame,) = FrameDecoder(1 << 24).feed(part)
        assert frame.opaque == len(told), "one reply for each request"
        told.append(frame.code)
    whole = 20 - len(back)
    assert 6 <= whole <= 8
    assert [receipt.queue_offset for receipt in back] == list(range(whole, 20))
    assert told == [codes.SUCCESS] * whole + [codes.FLOW_CONTROL] * len(back)
    assert conn.deadline() != 0
