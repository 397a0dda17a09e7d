"""ReceiveMessage: its commands, and its responses."""

from __future__ import annotations

import pytest

from domain.admin.group import GroupFound, QueryGroup
from domain.command import Extend, Receive
from domain.event import Extended, Received
from domain.topic.topic import Group
from domain.turn import RECEIVED_NS
from protocols.grpc import wire
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from protocols.http2.stream import HELD_BYTES_MAX
from tests.protocols.grpc.stage import SERVICE, WALL_MS, Stage, leased, poll, prefixed, with_settings


def test_receive_answers_status_messages_and_time(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll(), timeout="18S")
    command = stage.take(Receive)
    assert (command.group, command.topic, command.limit, command.invisible_ms) == ("g", "t", 32, 30_000)
    assert (command.wait_ms, command.queue_id, command.filter, command.ordered) == (15_000, -1, None, False)
    stage.give(Received(command.ticket, [leased(b"one"), leased(b"two", offset=8, attempt=3)], WALL_MS, 30_000))
    told = [pb.ReceiveMessageResponse.FromString(part) for part in stage.messages(stream)]
    assert [part.WhichOneof("content") for part in told] == ["status", "message", "message", "delivery_timestamp"]
    assert told[0].status.code == pb.OK
    one, two = told[1].message, told[2].message
    assert (one.topic.name, one.body, one.system_properties.message_id) == ("t", b"one", "ID1")
    assert one.system_properties.body_digest.type == pb.MD5
    assert one.system_properties.body_digest.checksum == "F97C5D29941BFB1B2FDAB0874906AB82"
    assert one.system_properties.receipt_handle == f"7 {WALL_MS} 30000 0 0 broker-a 3 7 4096"
    assert (two.system_properties.delivery_attempt, two.system_properties.queue_offset) == (3, 8)
    assert told[3].delivery_timestamp.ToMilliseconds() == WALL_MS
    assert stage.grpc_status(stream) == (0, "")


@pytest.mark.parametrize("kind", [3, 99, -1])
def test_a_filter_of_an_unknown_type_is_refused(engine: EngineFactory, kind: int) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.MergeFromString(b"\x08" + wire.varint(kind & (1 << 64) - 1) + b"\x12\x01*")
    stream = stage.call("ReceiveMessage", request)
    (told,) = [pb.ReceiveMessageResponse.FromString(part) for part in stage.messages(stream)]
    assert told.status.code == pb.ILLEGAL_FILTER_EXPRESSION
    assert stage.commands == []


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"HEAD"])
def test_methods_other_than_post_are_405(engine: EngineFactory, method: bytes) -> None:
    stage, _ = with_settings(engine)
    h2 = stage.client.connection
    stream = h2.get_next_available_stream_id()
    path = (SERVICE + "ReceiveMessage").encode()
    fields = [(b":method", method), (b":scheme", b"http"), (b":authority", b"gate"), (b":path", path)]
    h2.send_headers(stream, fields + stage.headers())
    stage.client.exchange()
    assert not stage.client.answered(stream), "curl takes a response with RST_STREAM behind it for an error"
    h2.send_data(stream, prefixed(poll().SerializeToString()), end_stream=True)
    stage.client.exchange()
    headers = stage.client.responses(stream)
    assert (headers[b":status"], headers[b"allow"]) == (b"405", b"POST")
    assert stage.client.resets() == {}
    assert stage.commands == []


@pytest.mark.parametrize(("kind", "text"), [(pb.TAG, "A || B"), (pb.SQL, "TAGS = 'A' OR colour = 'red'")])
def test_filters_of_both_types_go_with_the_poll(engine: EngineFactory, kind: pb.FilterType, text: str) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.type = kind
    request.filter_expression.expression = text
    stage.call("ReceiveMessage", request)
    command = stage.take(Receive)
    assert command.filter is not None
    assert command.filter.matches(b"TAGS\x01A\x02")
    assert not command.filter.matches(b"TAGS\x01C\x02")


@pytest.mark.parametrize(("size", "refused"), [(10_240, False), (16_384, False), (16_385, True)])
def test_a_tag_of_any_length_that_a_message_can_have_is_received(engine: EngineFactory, size: int, refused: bool) -> None:
    """Apache's end-to-end suite subscribes to a tag of 10,240 characters (TagFilterTest#testLongTagSize)."""
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.type = pb.TAG
    request.filter_expression.expression = "t" * size
    stream = stage.call("ReceiveMessage", request)
    if refused:
        told = pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0])
        assert told.status.code == pb.ILLEGAL_FILTER_EXPRESSION
    else:
        command = stage.take(Receive)
        assert command.filter is not None
        assert command.filter.matches(b"TAGS\x01" + b"t" * size + b"\x02")


def test_broken_filter_is_refused_by_name(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.filter_expression.type = pb.SQL
    request.filter_expression.expression = "colour ="
    stream = stage.call("ReceiveMessage", request)
    assert stage.commands == []
    told = pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.ILLEGAL_FILTER_EXPRESSION


def test_nothing_to_receive_is_message_not_found(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll())
    command = stage.take(Receive)
    stage.give(Received(command.ticket, [], WALL_MS, 30_000))
    told = [pb.ReceiveMessageResponse.FromString(part) for part in stage.messages(stream)]
    assert [part.WhichOneof("content") for part in told] == ["status", "delivery_timestamp"]
    assert told[0].status.code == pb.MESSAGE_NOT_FOUND


def test_poll_that_overtakes_its_settings_asks_the_group(stage: Stage) -> None:
    stream = stage.call("ReceiveMessage", poll())
    query = stage.take(QueryGroup)
    stage.give(GroupFound(query.ticket, Group("g", orderly=True)))
    command = stage.expire_one(stage.now, Receive)
    assert (command.ordered, command.wait_ms) == (True, 15_000)
    stage.give(Received(command.ticket, [leased(b"one")], WALL_MS, 30_000))
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[1]).message.body == b"one"


@pytest.mark.parametrize(
    ("asked_s", "timeout", "wait_ms"),
    [(15, "18S", 15_000), (40, "43S", 20_000), (1, "", 5_000), (30, "10S", 9_900), (None, "", 20_000), (None, "13S", 11_500)],
)
def test_polling_time_follows_request_and_deadline(
    engine: EngineFactory, asked_s: int | None, timeout: str, wait_ms: int
) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.ClearField("long_polling_timeout")
    if asked_s is not None:
        request.long_polling_timeout.seconds = asked_s
    stage.call("ReceiveMessage", request, timeout)
    command = stage.take(Receive)
    assert command.wait_ms == wait_ms


def test_deadline_too_near_for_a_poll_is_refused(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll(), timeout="3S")
    assert pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status.code == pb.ILLEGAL_POLLING_TIME


@pytest.mark.parametrize(("milliseconds", "word"), [(9_999, "small"), (12 * 3_600_000 + 1, "large")])
def test_illegal_invisible_time_is_refused(engine: EngineFactory, milliseconds: int, word: str) -> None:
    stage, _ = with_settings(engine)
    request = poll()
    request.invisible_duration.FromMilliseconds(milliseconds)
    stream = stage.call("ReceiveMessage", request)
    told = pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status
    assert told.code == pb.ILLEGAL_INVISIBLE_TIME
    assert f"the invisibleTime is too {word}" in told.message


def test_fifo_push_consumer_polls_its_queue_in_order(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER, group=Group("g", orderly=True))
    request = poll(auto_renew=True)
    request.attempt_id = "attempt-1"
    stage.call("ReceiveMessage", request)
    command = stage.take(Receive)
    assert (command.ordered, command.queue_id, command.attempt_id, command.invisible_ms) == (True, 2, "attempt-1", 60_000)


def test_messages_for_a_poll_that_was_cancelled_are_given_back(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("ReceiveMessage", poll())
    command = stage.take(Receive)
    stage.client.connection.reset_stream(stream, 8)
    stage.client.exchange()
    stage.give(Received(command.ticket, [leased(b"one")], WALL_MS, 30_000))
    back = stage.expire_one(stage.now, Extend)
    assert (back.group, back.topic, back.invisible_ms, back.receipts[0].queue_offset) == ("g", "t", 0, 7)
    stage.give(Extended(back.ticket, [back.receipts[0]]))
    assert not stage.server.closed


def test_polls_that_are_all_answered_at_once_are_bounded_for_who_does_not_read(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    body = bytes(4 << 20)
    calls: list[tuple[int, Receive]] = []
    for _ in range(40):
        stage.now += RECEIVED_NS  # each in a turn of its own
        stream = stage.call("ReceiveMessage", poll())
        command = stage.take(Receive)
        calls.append((stream, command))
    for at, (_, command) in enumerate(calls[:-1]):
        stage.server.answer(Received(command.ticket, [leased(body, offset=at)], WALL_MS, 30_000), stage.now)
    held = stage.application.calls.output.pending(0)
    assert HELD_BYTES_MAX < held <= HELD_BYTES_MAX + len(body) + 65_536
    stream, command = calls[-1]
    stage.server.answer(Received(command.ticket, [leased(b"small", offset=99)], WALL_MS, 30_000), stage.now)
    assert stage.server.deadline() == 0
    given_back: list[int] = []
    for back in stage.server.expire(stage.now):
        assert isinstance(back, Extend)
        assert (back.group, back.topic, back.invisible_ms, back.untold) == ("g", "t", 0, True)
        given_back += [receipt.queue_offset for receipt in back.receipts]
        stage.server.answer(Extended(back.ticket, list(back.receipts)), stage.now)
    assert given_back == list(range(given_back[0], 39)), "the last ones, and not the small one"
    assert 3 <= given_back[0] <= 5
    stage.client.connection.increment_flow_control_window(1 << 30)
    stage.client.exchange()
    told: list[int] = []
    for stream, _ in calls:
        told.append(pb.ReceiveMessageResponse.FromString(stage.messages(stream)[0]).status.code)
        assert stage.grpc_status(stream) == (0, "")
    assert told == [pb.OK] * given_back[0] + [pb.TOO_MANY_REQUESTS] * len(given_back) + [pb.OK]
    assert stage.application.calls.output.pending(0) == 0
    stream = stage.call("ReceiveMessage", poll())
    stage.take(Receive)  # who has read is served as before
