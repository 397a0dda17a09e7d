"""Settlement of messages, and renewal of their leases."""

from __future__ import annotations

import pytest

from domain.client.membership import Leave
from domain.command import Acknowledge, DeadLetter, Extend, Receive
from domain.delivery.retry import RetryPolicy
from domain.errors import ErrorCode, Failure
from domain.event import Done, Extended, Leased, Received, Refused, Settled
from domain.message.receipt import parse
from domain.topic.topic import Group
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import SECOND, WALL_MS, Stage, leased, poll, with_settings

GROUP, TOPIC = pb.Resource(name="g"), pb.Resource(name="t")


def acknowledged(*handles: str) -> pb.AckMessageRequest:
    """The acknowledgement of messages with these handles."""
    request = pb.AckMessageRequest(group=GROUP, topic=TOPIC)
    for handle in handles:
        request.entries.add(message_id="M", receipt_handle=handle)
    return request


def pushed(stage: Stage, given: Leased) -> None:
    """Give a push consumer a message, whose lease is renewed from now on."""
    stage.call("ReceiveMessage", poll(auto_renew=True))
    stage.give(Received(stage.take(Receive).ticket, [given], WALL_MS, 60_000))


def test_ack_settles_and_tells_each_entry(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    handle = leased(b"x").receipt.text()
    stream = stage.call("AckMessage", acknowledged(handle, "not a handle", handle))
    command = stage.take(Acknowledge)
    assert [receipt.text() for receipt in command.receipts] == [handle, handle]
    stage.give(Settled(command.ticket, [None, Failure(ErrorCode.RECEIPT_EXPIRED, "late")]))
    told = pb.AckMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.MULTIPLE_RESULTS
    assert [entry.status.code for entry in told.entries] == [
        pb.OK,
        pb.INVALID_RECEIPT_HANDLE,
        pb.INVALID_RECEIPT_HANDLE,
    ]
    assert [entry.receipt_handle for entry in told.entries] == [handle, "not a handle", handle]


@pytest.mark.parametrize(
    ("outcome", "code"), [(None, pb.OK), (Failure(ErrorCode.RECEIPT_EXPIRED, "x" * 300), pb.INVALID_RECEIPT_HANDLE)]
)
def test_one_ack_has_its_code_on_top(engine: EngineFactory, outcome: Failure | None, code: int) -> None:
    stage, _ = with_settings(engine)
    stream = stage.call("AckMessage", acknowledged(leased(b"x").receipt.text()))
    command = stage.take(Acknowledge)
    stage.give(Settled(command.ticket, [outcome]))
    told = pb.AckMessageResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == told.entries[0].status.code == code


@pytest.mark.parametrize(("ago_ms", "code"), [(29_999, pb.OK), (30_000, pb.INVALID_RECEIPT_HANDLE)])
def test_a_handle_is_good_for_as_long_as_its_message_is_invisible(engine: EngineFactory, ago_ms: int, code: int) -> None:
    stage, _ = with_settings(engine)
    handle = f"7 {WALL_MS - ago_ms} 30000 0 0 broker-a 3 7 4096"
    ack = stage.call("AckMessage", acknowledged(handle))
    later = pb.ChangeInvisibleDurationRequest(group=GROUP, topic=TOPIC, receipt_handle=handle)
    change = stage.call("ChangeInvisibleDuration", later)
    for command in stage.take_all() if code == pb.OK else []:
        if isinstance(command, Acknowledge):
            stage.give(Settled(command.ticket, [None]))
        elif isinstance(command, Extend):
            stage.give(Extended(command.ticket, [*command.receipts]))
    told = pb.AckMessageResponse.FromString(stage.messages(ack)[0]).status
    assert told.code == code
    assert code == pb.OK or "INVALID_RECEIPT_HANDLE" in told.message, "there are clients that look for the code's name"
    assert pb.ChangeInvisibleDurationResponse.FromString(stage.messages(change)[0]).status.code == code


def test_change_of_invisible_time_hands_out_the_new_handle(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    handle = leased(b"x").receipt.text()
    request = pb.ChangeInvisibleDurationRequest(group=GROUP, topic=TOPIC, receipt_handle=handle)
    stream = stage.call("ChangeInvisibleDuration", request)
    command = stage.take(Extend)
    assert command.invisible_ms == 0
    fresh = parse(handle.replace("30000", "0"))
    assert fresh is not None
    stage.give(Extended(command.ticket, [fresh]))
    told = pb.ChangeInvisibleDurationResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.receipt_handle) == (pb.OK, fresh.text())


@pytest.mark.parametrize(
    ("handle", "seconds", "code"),
    [("junk", 10, pb.INVALID_RECEIPT_HANDLE), ("0 1 2 3 0 b 0 0", 43_201, pb.ILLEGAL_INVISIBLE_TIME)],
)
def test_refused_change_gives_the_old_handle_back(engine: EngineFactory, handle: str, seconds: int, code: int) -> None:
    stage, _ = with_settings(engine)
    request = pb.ChangeInvisibleDurationRequest(group=GROUP, topic=TOPIC, receipt_handle=handle)
    request.invisible_duration.seconds = seconds
    stream = stage.call("ChangeInvisibleDuration", request)
    told = pb.ChangeInvisibleDurationResponse.FromString(stage.messages(stream)[0])
    assert (told.status.code, told.receipt_handle) == (code, handle)


def test_forwarding_to_the_dead_letter_queue(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine)
    request = pb.ForwardMessageToDeadLetterQueueRequest(group=GROUP, topic=TOPIC, receipt_handle=leased(b"x").receipt.text())
    stream = stage.call("ForwardMessageToDeadLetterQueue", request)
    command = stage.take(DeadLetter)
    assert command.receipt.queue_offset == 7
    stage.give(Done(command.ticket))
    told = pb.ForwardMessageToDeadLetterQueueResponse.FromString(stage.messages(stream)[0])
    assert told.status.code == pb.OK


def test_lease_of_a_push_consumer_is_renewed_and_the_first_handle_still_works(engine: EngineFactory) -> None:
    stage, telemetry = with_settings(engine, pb.PUSH_CONSUMER)
    given = leased(b"slow work")
    pushed(stage, given)
    renewals = stage.expire(stage.now + 51 * SECOND)
    (extend,) = renewals
    assert isinstance(extend, Extend)
    assert (extend.group, extend.topic, extend.invisible_ms) == ("g", "t", 60_000)
    renewed = parse(given.receipt.text().replace(str(WALL_MS), str(WALL_MS + 51_000)))
    assert renewed is not None
    stage.give(Extended(extend.ticket, [renewed]))
    stage.call("AckMessage", acknowledged(given.receipt.text()))
    ack = stage.take(Acknowledge)
    assert [receipt.text() for receipt in ack.receipts] == [renewed.text()]
    assert stage.expire(stage.now + 120 * SECOND) == []
    assert telemetry in stage.application.calls.by_stream


def test_renewal_ends_when_the_store_refuses(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER)
    pushed(stage, leased(b"x"))
    extend = stage.expire_one(stage.now + 51 * SECOND, Extend)
    stage.give(Refused(extend.ticket, Failure(ErrorCode.STORE_UNAVAILABLE)))
    assert stage.expire(stage.now + 120 * SECOND) == []


def test_a_lease_that_was_renewed_for_three_hours_ends_as_the_retry_policy_says(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER, Group("g", retry=RetryPolicy("EXPONENTIAL", initial_ms=700)))
    given = leased(b"slow")
    given.attempt = 3
    pushed(stage, given)
    delays: list[int] = []
    for _ in range(300):
        stage.now += 50 * SECOND
        for extend in stage.expire(stage.now):
            assert isinstance(extend, Extend)
            delays.append(extend.invisible_ms)
            stage.give(Extended(extend.ticket, list(extend.receipts)))
    assert delays[-1] == 2_800
    assert set(delays[:-1]) == {60_000}
    assert 200 < len(delays) < 240


def test_leases_of_a_client_that_leaves_are_given_back(engine: EngineFactory) -> None:
    stage, _ = with_settings(engine, pb.PUSH_CONSUMER)
    pushed(stage, leased(b"x"))
    stage.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    leave = stage.take(Leave)
    stage.give(Done(leave.ticket))
    back = stage.expire_one(stage.now, Extend)
    assert back.invisible_ms == 1_000
