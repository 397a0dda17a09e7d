"""Transactions, recalls, dead letters, heartbeats and pulls: what is asked of the brokers, and how their answers are told."""

from __future__ import annotations

import orjson
import pytest

from domain.delivery.recall import RecallHandle, parse
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import encode
from domain.store.store_request import PullRequest, ReadRequest
from gateway.apache import transactions as module
from gateway.apache.heartbeats import RocketmqHeartbeats
from gateway.apache.store import RocketmqDeadLetters, RocketmqPulls
from gateway.apache.transactions import RocketmqTimers, RocketmqTransactions
from gateway.brokers.empty_body import sendable
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.frame import encode as encode_frame
from tests.gateway.apache.pop.test_leases import World
from tests.gateway.apache.scripted_pop import HOST


class Listener:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, int]] = []

    def undecided(self, group: str, record: bytes, check: int) -> bool:
        self.asked.append((group, record, check))
        return True


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def transactions(world: World) -> RocketmqTransactions:
    for each in world.cluster.brokers.values():
        each.on(codes.END_TRANSACTION, lambda frame: (codes.SUCCESS, {"a": "b"}, b""))
    return RocketmqTransactions(world.brokers, lambda group: None)


def end(world: World, transactions: RocketmqTransactions, commit: bool, group: str = "p", key: str = "M1") -> Failure | None:
    answers: list[Failure | None] = []
    transactions.end(group, key, -1, -1, commit, answers.append)
    world.clock.run_for(20)
    [answer] = answers
    return answer


def ends(world: World, broker: str) -> list[dict[str, str]]:
    frames = world.cluster.brokers[broker].requests
    return [frame.fields() or {} for frame in frames if frame.code == codes.END_TRANSACTION]


def test_a_decision_goes_to_the_broker_that_has_the_half_message(world: World, transactions: RocketmqTransactions) -> None:
    transactions.half_stored("p", "M1", "T", "broker-b", 7, 12_345)
    assert end(world, transactions, True) is None
    assert not ends(world, "broker-a")
    [asked] = ends(world, "broker-b")
    assert asked == {
        "topic": "T", "producerGroup": "p", "tranStateTableOffset": "7", "commitLogOffset": "12345", "commitOrRollback": "8",
        "fromTransactionCheck": "false", "msgId": "M1", "transactionId": "M1",
    }  # fmt: skip


def test_a_decision_is_carried_out_once(world: World, transactions: RocketmqTransactions) -> None:
    transactions.half_stored("p", "M1", "T", "broker-b", 7, 12_345)
    assert end(world, transactions, False) is None
    assert end(world, transactions, False) is None
    other = end(world, transactions, True)
    assert isinstance(other, Failure)
    assert other.code is ErrorCode.MESSAGE_NOT_FOUND
    assert [each["commitOrRollback"] for each in ends(world, "broker-b")] == ["12"]


def test_a_copy_that_was_made_before_the_decision_was_seen_is_not_committed_again(
    world: World, transactions: RocketmqTransactions
) -> None:
    """A broker sees a decision up to 3 s later, and may have asked about a copy of the half message before."""
    listener = Listener()
    transactions.listen(listener)
    transactions.half_stored("p", "M1", "T", "broker-a", 7, 12_345)
    assert end(world, transactions, True) is None
    transactions.checked("broker-a", checked())
    world.clock.run_for(20)
    assert listener.asked == []
    assert [(each["tranStateTableOffset"], each["commitOrRollback"]) for each in ends(world, "broker-a")] == [
        ("7", "8"),
        ("9", "12"),
    ]
    assert end(world, transactions, True) is None
    assert len(ends(world, "broker-a")) == 2


def test_a_check_back_while_the_decision_is_under_way_does_not_repeat_it(
    world: World, transactions: RocketmqTransactions
) -> None:
    transactions.half_stored("p", "M1", "T", "broker-a", 7, 12_345)
    answers: list[Failure | None] = []
    transactions.end("p", "M1", -1, -1, True, answers.append)
    transactions.checked("broker-a", checked())
    world.clock.run_for(20)
    assert end(world, transactions, True) is None
    assert answers == [None]
    world.clock.run_for(20)
    assert [each["commitOrRollback"] for each in ends(world, "broker-a")] == ["8", "12"]


def test_another_group_does_not_decide(world: World, transactions: RocketmqTransactions) -> None:
    transactions.half_stored("p", "M1", "T", "broker-b", 7, 12_345)
    failure = end(world, transactions, True, group="q")
    assert isinstance(failure, Failure)
    assert failure.code is ErrorCode.NOT_ALLOWED
    topics: list[str | Failure] = []
    transactions.topic("p", "M1", -1, topics.append)
    transactions.topic("q", "M1", -1, topics.append)
    assert topics == ["T", ""]


def test_a_decision_that_the_broker_did_not_hear_can_be_repeated(world: World, transactions: RocketmqTransactions) -> None:
    transactions.half_stored("p", "M1", "T", "broker-b", 7, 12_345)
    world.cluster.brokers["broker-b"].on(codes.END_TRANSACTION, lambda frame: (codes.SYSTEM_BUSY, {"a": "b"}, b""))
    failure = end(world, transactions, True)
    assert isinstance(failure, Failure)
    assert failure.code is ErrorCode.OVERLOADED
    world.cluster.brokers["broker-b"].on(codes.END_TRANSACTION, lambda frame: (codes.SUCCESS, {"a": "b"}, b""))
    assert end(world, transactions, True) is None


def checked(offset: str = "9", body: bytes | None = None, times: str = "2") -> Frame:
    stored = properties.encode([("UNIQ_KEY", "M1"), ("PGROUP", "p"), ("TRANSACTION_CHECK_TIMES", times)])
    record = encode(Message("T", b"half", stored, queue_id=1), 9, 22_222, 1, HOST)
    fields = {"tranStateTableOffset": offset, "commitLogOffset": "22222", "msgId": "M1"}
    data = encode_frame(codes.CHECK_TRANSACTION, 1, fields=fields, body=record if body is None else body)
    from protocols.remoting.wire.frame import FrameDecoder

    [frame] = FrameDecoder().feed(data)
    return frame


def test_a_check_back_is_passed_on_and_its_offsets_are_those_of_the_decision(
    world: World, transactions: RocketmqTransactions
) -> None:
    listener = Listener()
    transactions.listen(listener)
    transactions.half_stored("p", "M1", "T", "broker-b", 7, 12_345)
    transactions.checked("broker-a", checked())
    [(group, record, check)] = listener.asked
    assert (group, check) == ("p", 2)
    assert record[28:36] == (22_222).to_bytes(8, "big")
    assert end(world, transactions, True) is None
    [asked] = ends(world, "broker-a")
    assert (asked["tranStateTableOffset"], asked["commitLogOffset"], asked["fromTransactionCheck"]) == ("9", "22222", "true")


def test_a_half_message_without_a_body_is_asked_about_as_it_was_sent(transactions: RocketmqTransactions) -> None:
    listener = Listener()
    transactions.listen(listener)
    half = Message("T", b"", properties.encode([("UNIQ_KEY", "M1"), ("PGROUP", "p")]), queue_id=1)
    wanted = encode(half, 9, 22_222, 1, HOST)
    half.body, half.properties = sendable(half)
    transactions.checked("broker-a", checked(body=encode(half, 9, 22_222, 1, HOST)))
    assert listener.asked == [("p", wanted, 1)]


@pytest.mark.parametrize(
    "frame", [checked(offset="x"), checked(offset="1" * 40), checked(body=b"no record"), checked(body=b"")]
)
def test_a_check_back_that_cannot_be_read_asks_nobody(transactions: RocketmqTransactions, frame: Frame) -> None:
    listener = Listener()
    transactions.listen(listener)
    transactions.checked("broker-a", frame)
    assert listener.asked == []


def test_half_messages_are_remembered_up_to_a_bound(
    world: World, transactions: RocketmqTransactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HALVES_MAX", 10)
    for at in range(20):
        transactions.half_stored("p", f"M{at}", "T", "broker-b", at, at)
    assert isinstance(end(world, transactions, True, key="M9"), Failure)
    assert end(world, transactions, True, key="M10") is None


def test_a_recall_goes_to_the_broker_of_its_handle(world: World) -> None:
    world.a.server.on(codes.RECALL, lambda frame: (codes.SUCCESS, {"msgId": "M1"}, b""))
    world.b.server.on(codes.RECALL, lambda frame: (codes.NO_PERMISSION, {"a": "b"}, b""))
    timers = RocketmqTimers(world.brokers)
    results: list[Failure | None] = []
    for broker in ("broker-a", "broker-b", "broker-x"):
        timers.recall(RecallHandle("T", broker, 1_700_000_000_001, "M1"), results.append)
        world.clock.run_for(20)
    [frame] = [each for each in world.a.server.requests if each.code == codes.RECALL]
    fields = frame.fields() or {}
    assert parse(fields["recallHandle"]) == ("T", "broker-a", 1_700_000_000_001, "M1")
    assert results[0] is None
    assert [each.code for each in results if each is not None] == [ErrorCode.NOT_SUPPORTED, ErrorCode.ARGUMENT_ILLEGAL]


def test_a_dead_letter_is_copied_by_the_broker_and_settled_then(world: World) -> None:
    world.a.server.on(codes.SEND_BACK, lambda frame: (codes.SUCCESS, {"a": "b"}, b""))
    moves = RocketmqDeadLetters(world.brokers, world.leases)
    results: list[Failure | None] = []
    receipt = Receipt(5, world.clock.wall_ms(), 60_000, 3, 1, "broker-a", 0, 5, 777)
    moves.move("g", "T", receipt, None, results.append)
    world.clock.run_for(20)
    assert results == [None]
    [frame] = [each for each in world.a.server.requests if each.code == codes.SEND_BACK]
    asked = frame.fields() or {}
    assert (asked["offset"], asked["delayLevel"], asked["originTopic"]) == ("777", "-1", "%RETRY%g_T")
    assert world.a.settled == [(1, 0, 5)]


def test_a_dead_letter_that_was_not_copied_keeps_its_lease(world: World) -> None:
    world.a.server.on(codes.SEND_BACK, lambda frame: (codes.SYSTEM_BUSY, {"a": "b"}, b""))
    moves = RocketmqDeadLetters(world.brokers, world.leases)
    results: list[Failure | None] = []
    now = world.clock.wall_ms()
    moves.move("g", "T", Receipt(5, now, 60_000, 3, 0, "broker-a", 0, 5, 777), None, results.append)
    moves.move("g", "T", Receipt(5, now, 60_000, 3, 0, "broker-a", 0, 5), None, results.append)
    world.clock.run_for(20)
    assert sorted(each.code.value for each in results if each is not None) == ["overloaded", "receipt-invalid"]
    assert world.a.settled == []


def test_groups_in_use_are_told_to_all_brokers_in_batches(world: World) -> None:
    for each in world.cluster.brokers.values():
        each.on(codes.HEARTBEAT, lambda frame: (codes.SUCCESS, {"a": "b"}, b""))
    there = {"p"}
    beats = RocketmqHeartbeats(
        world.brokers, world.map, world.clock, "node-1", world.leases.reading, there.__contains__
    )  # fmt: skip
    beats.start()
    beats.produces("p")
    for at in range(150):
        world.leases.lease(world.request(group=f"g{at}"), lambda _: None)
    assert len(world.begun) == 150
    beats.reads()
    world.clock.run_for(20)
    for server in world.cluster.brokers.values():
        bodies = [orjson.loads(each.body) for each in server.requests if each.code == codes.HEARTBEAT]
        assert [len(each["consumerDataSet"]) for each in bodies] == [100, 50]
        assert bodies[0]["producerDataSet"] == [{"groupName": "p"}]
        assert {each["clientID"] for each in bodies} == {"node-1"}
    there.clear()
    world.clock.run_for(200_000)
    before = world.a.server.codes().count(codes.HEARTBEAT)
    world.clock.run_for(60_000)
    assert world.a.server.codes().count(codes.HEARTBEAT) == before, "nobody is here any more"


def test_a_member_that_pulls_is_refused_by_name() -> None:
    results: list[object] = []
    RocketmqPulls().pull(PullRequest("g", "m", "", ReadRequest("T", 0, 0, 32, 1_000)), results.append)
    [failure] = results
    assert isinstance(failure, Failure)
    assert failure.code is ErrorCode.NOT_SUPPORTED
    assert "POP" in failure.text
