"""Leases over two scripted brokers: fan-in, brokers that are slow or gone, receipts, acknowledgements."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.filter import expression
from domain.filter.filter import SQL92, TAG
from domain.message.message import Message
from domain.message.receipt import Receipt
from domain.message.record import Record, encode, renamed
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest, LeaseTerms
from gateway.apache.pop.broker_side import NOTIFICATION_MS
from gateway.apache.pop.brokers import UNHURRIED
from gateway.apache.pop.leases import RocketmqLeases
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.empty_body import sendable
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.apache.scripted_cluster import Reply, ScriptedCluster, reply_to
from tests.gateway.apache.scripted_pop import HOST, PopBroker
from tests.simulation.kit.entropy import FixedEntropy
from tests.store.driver import Driver


class World:
    """A cluster with topic T, two queues on each of its brokers, and the leases of a gateway before it.

    results   what lease calls were answered, in order
    parked    requests that found nothing and try again when they are told, as long polls do
    """

    def __init__(self, brokers: int = 2) -> None:
        driver = Driver()
        self.clock = driver.clock
        self.cluster = ScriptedCluster(self.clock, brokers)
        self.cluster.topics["T"] = dict.fromkeys(self.cluster.brokers, (2, 2, 6))
        self.brokers = Brokers([("10.0.0.9", 9876)], self.cluster, self.clock, FixedEntropy())
        self.map = ClusterMap(self.brokers, self.clock, driver.store.state)
        self.leases = RocketmqLeases(self.brokers, self.map, self.clock, self.freed, lambda *read: self.begun.append(read))
        self.begun: list[tuple[str, str]] = []
        self.at = {name: PopBroker(server) for name, server in self.cluster.brokers.items()}
        self.a = self.at["broker-a"]
        self.b = self.at.get("broker-b", self.a)
        self.results: list[LeaseResult | Failure] = []
        self.parked: deque[LeaseRequest] = deque()
        self.map.start()
        self.map.ensure("T", lambda _: None)
        self.clock.run_for(50)

    def request(
        self, limit: int = 32, group: str = "g", ordered: bool = False, attempt_id: str = "", **more: Any
    ) -> LeaseRequest:
        return LeaseRequest(group, "T", limit, LeaseTerms(60_000, ordered, attempt_id), **{"from_first": True, **more})

    def lease(self, limit: int = 32, run_ms: float = 20, **more: Any) -> LeaseResult | Failure:
        """One call that does not wait."""
        got: list[LeaseResult | Failure] = []
        self.leases.lease(self.request(limit, **more), got.append)
        self.clock.run_until(lambda: bool(got))
        self.clock.run_for(run_ms)
        return got[0]

    def wait(self, limit: int = 32, group: str = "g") -> None:
        """A call that waits for messages."""
        self._try(self.request(limit, group))

    def _try(self, request: LeaseRequest) -> None:
        self.leases.lease(request, lambda result: self._got(request, result))

    def _got(self, request: LeaseRequest, result: LeaseResult | Failure) -> None:
        if isinstance(result, LeaseResult) and not result.messages:
            self.parked.append(request)
        else:
            self.results.append(result)

    def freed(self, group: str, topic: str) -> None:
        """First come, first served, and only as long as a call leaves its place, as LongPolls does."""
        waiting, self.parked = self.parked, deque()
        while waiting:
            before = len(self.parked)
            self._try(waiting.popleft())
            if len(self.parked) > before:
                self.parked.rotate(1)
                break
        self.parked.extend(waiting)

    def messages(self) -> list[str]:
        """Where the messages that were given out are from: broker-queue-offset."""
        return [place(each.receipt) for one in self.results if isinstance(one, LeaseResult) for each in one.messages]


def place(receipt: Receipt) -> str:
    return f"{receipt.broker}-{receipt.queue_id}-{receipt.queue_offset}"


@pytest.fixture
def world() -> World:
    return World()


def given(result: LeaseResult | Failure) -> list[str]:
    assert isinstance(result, LeaseResult), result
    return [place(each.receipt) for each in result.messages]


def test_calls_begin_with_the_brokers_in_turn(world: World) -> None:
    world.a.put(20)
    world.b.put(20)
    brokers = [given(world.lease(1))[0][:8] for _ in range(8)]
    assert sorted(brokers) == ["broker-a"] * 4 + ["broker-b"] * 4


def test_a_call_finds_what_only_one_broker_has(world: World) -> None:
    world.b.put(3, queue_id=1)
    assert given(world.lease()) == ["broker-b-1-0", "broker-b-1-1", "broker-b-1-2"]
    assert given(world.lease()) == []


def test_a_message_without_a_body_is_received_as_it_was_sent(world: World) -> None:
    message = Message("T", b"", b"KEYS\x01k\x02", queue_id=0)
    wanted = encode(message, 0, 7, 1, HOST)
    message.body, message.properties = sendable(message)
    world.a.put_record(encode(message, 0, 7, 1, HOST))
    result = world.lease()
    assert isinstance(result, LeaseResult)
    assert [each.record for each in result.messages] == [wanted]
    assert given(result) == ["broker-a-0-0"]


def test_a_receipt_is_apaches_byte_for_byte(world: World) -> None:
    world.a.put(2, queue_id=1)
    before = world.clock.wall_ms()
    result = world.lease()
    assert isinstance(result, LeaseResult)
    receipt = result.messages[1].receipt
    assert before <= receipt.pop_ms <= world.clock.wall_ms()
    assert receipt.text() == f"0 {receipt.pop_ms} 60000 3 0 broker-a 1 1 1100"
    assert result.messages[1].attempt == 1


@pytest.mark.parametrize(("retry", "topic"), [(1, "%RETRY%g_T"), (2, "%RETRY%g+T")])
def test_a_redelivered_message_is_settled_in_the_retry_topic_that_it_is_of(world: World, retry: int, topic: str) -> None:
    world.a.put_again("g", 0, 7, retry)
    result = world.lease()
    assert isinstance(result, LeaseResult)
    [message] = result.messages
    assert message.attempt == 2
    assert (message.receipt.retry, message.receipt.queue_offset, message.receipt.physical_offset) == (retry, 7, 1_000)
    assert b"POP_CK" not in message.record
    outcomes: list[Any] = []
    # As the use case names it, whichever version of retry topics the broker has.
    world.leases.settle("g", "%RETRY%g_T", [message.receipt], outcomes.append)
    world.clock.run_for(20)
    world.leases.extend("g", "%RETRY%g_T", [message.receipt], 5_000, outcomes.append)
    world.clock.run_for(20)
    assert outcomes[0] == [None]
    [frame] = [each for each in world.a.server.requests if each.code == codes.ACK]
    assert (frame.fields() or {})["topic"] == topic
    assert world.a.changed[0]["topic"] == topic
    [changed] = outcomes[1]
    assert changed.text() == f"7 {changed.pop_ms} 5000 5 {retry} broker-a 0 7 1000"


def test_a_broker_that_tells_the_retry_topic_itself_is_understood(world: World) -> None:
    """With `popResponseReturnActualRetryTopic` records keep their topic and bring no receipt."""
    world.a.put(1)
    stored = world.a.stored[0]
    stored.record = renamed(stored.record, "%RETRY%g_T", Record(stored.record).properties)
    stored.retry = 1
    result = world.lease()
    assert isinstance(result, LeaseResult)
    [message] = result.messages
    assert (Record(message.record).topic, message.receipt.retry) == ("T", 1)


def test_the_groups_retry_topic_is_left_to_the_brokers(world: World) -> None:
    got: list[LeaseResult | Failure] = []
    world.leases.lease(LeaseRequest("g", "%RETRY%g_T", 5, LeaseTerms(1_000)), got.append)
    assert given(got[0]) == []
    world.clock.run_for(20)
    assert not world.a.pops
    assert not world.b.pops


def test_acknowledgements_of_a_turn_are_one_request_to_each_broker(world: World) -> None:
    world.a.put(40)
    world.b.put(40)
    receipts = [each.receipt for _ in range(4) for each in world.lease(20).messages]  # type: ignore[union-attr]
    outcomes: list[object] = []
    for receipt in receipts:
        world.leases.settle("g", "T", [receipt], outcomes.append)
    world.clock.run_for(20)
    assert outcomes == [[None]] * 80
    assert sorted(world.a.settled) == [(0, 0, at) for at in range(40)]
    assert sorted(world.b.settled) == [(0, 0, at) for at in range(40)]
    assert world.a.server.codes().count(codes.BATCH_ACK) == world.b.server.codes().count(codes.BATCH_ACK) == 1


def test_a_broker_that_knows_no_batches_gets_acknowledgements_one_by_one(world: World) -> None:
    world.a.server.on(codes.BATCH_ACK, lambda frame: (codes.NOT_SUPPORTED, {"a": "b"}, b""))
    world.a.put(3)
    result = world.lease()
    assert isinstance(result, LeaseResult)
    outcomes: list[object] = []
    world.leases.settle("g", "T", [each.receipt for each in result.messages], outcomes.append)
    world.clock.run_for(20)
    assert outcomes == [[None, None, None]]
    assert len(world.a.settled) == 3


def settled(world: World, *receipts: Receipt) -> list[ErrorCode | None]:
    """What the acknowledgement of each lease is answered; None: it is settled."""
    outcomes: list[list[Failure | None]] = []
    world.leases.settle("g", "T", receipts, outcomes.append)  # type: ignore[arg-type]
    world.clock.run_for(20)
    return [None if each is None else each.code for each in outcomes[0]]


@pytest.mark.parametrize("ahead_ms", [-10_000, 0, 10_000])
def test_the_end_of_a_lease_is_a_time_by_the_clock_of_its_broker(world: World, ahead_ms: int) -> None:
    world.a.ahead_ms = ahead_ms
    world.a.put(2)
    result = world.lease()
    assert isinstance(result, LeaseResult)
    first, second = (each.receipt for each in result.messages)
    world.clock.run_for(59_000)
    assert settled(world, first) == [None]
    world.clock.run_for(2_000)
    assert settled(world, second) == [ErrorCode.RECEIPT_EXPIRED]


def test_a_broker_whose_clock_is_not_known_decides_itself(world: World) -> None:
    now = world.clock.wall_ms()
    assert settled(world, Receipt(0, now - 61_000, 60_000, 3, 0, "broker-a", 0, 1)) == [None]
    assert world.a.settled == [(0, 0, 1)]


def test_an_extension_shows_the_clock_of_a_broker(world: World) -> None:
    world.a.ahead_ms = 10_000
    now = world.clock.wall_ms() + 10_000
    changed: list[Any] = []
    world.leases.extend("g", "T", [Receipt(0, now, 60_000, 3, 0, "broker-a", 0, 1)], 5_000, changed.append)
    world.clock.run_for(20)
    world.clock.run_for(6_000)
    assert settled(world, changed[0][0]) == [ErrorCode.RECEIPT_EXPIRED]


def test_a_made_up_receipt_takes_no_memory_and_a_lease_that_has_ended_is_refused(world: World) -> None:
    given(world.lease())
    now = world.clock.wall_ms()
    far = Receipt(0, now, 60_000, 3, 0, "broker-a", 0, 10**15)
    old = Receipt(0, now - 61_000, 60_000, 3, 0, "broker-a", 0, 1)
    nowhere = Receipt(0, now, 60_000, 3, 0, "broker-x", 0, 1)
    world.a.server.on(codes.ACK, lambda frame: (codes.NO_MESSAGE, {"a": "b"}, b""))
    outcomes: list[list[Failure | None]] = []
    world.leases.settle("g", "T", [far, old, nowhere], outcomes.append)  # type: ignore[arg-type]
    world.clock.run_for(20)
    [found] = outcomes
    assert [each.code for each in found if each is not None] == [
        ErrorCode.RECEIPT_INVALID, ErrorCode.RECEIPT_EXPIRED, ErrorCode.STORE_UNAVAILABLE,
    ]  # fmt: skip


def test_a_parked_call_is_told_by_one_notification_of_each_broker(world: World) -> None:
    for _ in range(10):
        world.wait()
    world.clock.run_for(100)
    assert (world.a.notifications, world.b.notifications) == (1, 1)
    pops = len(world.a.pops) + len(world.b.pops)
    world.b.put(1)
    world.clock.run_for(20)
    assert world.messages() == ["broker-b-0-0"]
    assert len(world.a.pops) + len(world.b.pops) == pops + 1
    assert len(world.parked) == 9


def test_parked_calls_get_all_messages_of_a_burst(world: World) -> None:
    for _ in range(10):
        world.wait(2)
    world.clock.run_for(100)
    world.a.put(13)
    world.b.put(4)
    world.clock.run_for(200)
    assert sorted(world.messages()) == sorted(
        [f"broker-a-0-{at}" for at in range(13)] + [f"broker-b-0-{at}" for at in range(4)]
    )


def test_calls_are_carried_out_together_while_a_broker_has_more(world: World) -> None:
    """Large messages: a broker gives two at a time, whatever it is asked for."""
    answer = world.a._pop
    most: list[int] = []

    def two(frame: Frame) -> Reply:
        fields = dict(frame.fields() or {})
        frame.set_fields({**fields, "maxMsgNums": "2"})
        most.append(world.brokers.in_flight("broker-a"))
        return answer(frame)

    world.a.server.on(codes.POP, two)
    world.a.put(200)
    for _ in range(100):
        world.wait(32)
    world.clock.run_for(100)
    assert len(world.messages()) == 200
    assert max(most) > 4


def test_what_a_notification_forgot_is_found(world: World) -> None:
    world.wait()
    world.clock.run_for(100)
    world.a.put(1, tell=False)
    world.clock.run_for(6_000)
    assert world.messages() == ["broker-a-0-0"]


def test_nobody_is_asked_once_nobody_waits(world: World) -> None:
    world.wait()
    world.clock.run_for(40_000)
    before = world.a.notifications
    world.clock.run_for(60_000)
    assert world.a.notifications <= before + 1


def test_many_groups_that_wait_have_a_broker_renew_as_many_notifications_as_fewer_have(world: World) -> None:
    groups = 3 * UNHURRIED
    for number in range(groups):
        world.wait(group=f"g{number}")
    world.clock.run_for(25_000)
    renewals = 25_000 // NOTIFICATION_MS * UNHURRIED
    assert groups < world.a.notifications <= groups + renewals
    asked = [frame.fields() or {} for frame in world.a.server.requests if frame.code == codes.NOTIFICATION]
    assert {int(each["pollTime"]) for each in asked} == {NOTIFICATION_MS, 2 * NOTIFICATION_MS, 3 * NOTIFICATION_MS}


def test_notifications_for_messages_of_others_are_followed_by_a_pause(world: World) -> None:
    """The broker says that there are messages, and its POP gives none, as when a filter wants none of them."""
    world.a.server.on(codes.NOTIFICATION, lambda frame: (0, {"hasMsg": "true", "pollingFull": "false"}, b""))
    world.wait()
    world.clock.run_for(10_000)
    assert len(world.a.pops) < 30


def test_a_broker_that_is_gone_delays_only_its_own_messages(world: World) -> None:
    world.a.put(5)
    world.b.put(5)
    world.b.server.stop()
    world.wait(5)
    world.clock.run_for(400)
    assert world.messages() == [f"broker-a-0-{at}" for at in range(5)]
    world.wait(5)
    world.clock.run_for(5_000)
    world.b.server.up = True
    world.b.server.on(codes.CHECK_CLIENT, lambda frame: (0, {"a": "b"}, b""))
    world.clock.run_for(3_000)
    assert world.messages()[5:] == [f"broker-b-0-{at}" for at in range(5)]


def test_a_broker_that_says_nothing_is_passed_over_and_comes_back(world: World) -> None:
    world.b.server.silent = True
    for _ in range(4):
        world.wait(5)
    world.a.put(20)
    world.clock.run_for(700)
    assert len(world.messages()) == 20
    assert all(each.startswith("broker-a") for each in world.messages())
    for _ in range(3):
        world.wait(1)
    world.clock.run_for(300)
    world.a.put(1)
    world.clock.run_for(300)
    assert len(world.messages()) == 21
    world.b.server.silent = False
    world.b.server.on(codes.CHECK_CLIENT, lambda frame: (0, {"a": "b"}, b""))
    world.b.put(2)
    world.clock.run_for(8_000)
    assert world.messages()[21:] == ["broker-b-0-0", "broker-b-0-1"]


def test_what_a_late_broker_gives_goes_to_a_call_that_waits(world: World) -> None:
    held: list[Frame] = []
    answer = world.b._pop

    def hold(frame: Frame) -> Reply:
        held.append(frame)
        return None

    world.b.server.on(codes.POP, hold)
    world.b.put(2)
    for _ in range(2):
        world.wait(5)
    world.clock.run_for(1_000)
    assert held
    assert len(world.parked) == 2
    found = answer(held[0])
    assert found is not None
    world.b.server.on(codes.POP, answer)
    world.b.server.connections[-1].notify(reply_to(held[0], *found))
    world.clock.run_for(50)
    assert world.messages() == ["broker-b-0-0", "broker-b-0-1"]
    assert not world.b.changed


def test_what_a_late_broker_gives_is_kept_a_moment_and_then_given_back(world: World) -> None:
    held: list[Frame] = []

    def hold(frame: Frame) -> Reply:
        held.append(frame)
        return None

    answer = world.b._pop
    world.b.server.on(codes.POP, hold)
    world.b.put(2)
    assert given(world.lease()) == []
    if not held:
        assert given(world.lease()) == []
    found = answer(held[0])
    assert found is not None
    world.b.server.connections[-1].notify(reply_to(held[0], *found))
    world.clock.run_for(50)
    assert not world.b.changed
    assert given(world.lease(1)) == ["broker-b-0-0"]
    world.clock.run_for(1_500)
    assert [(each["offset"], each["invisibleTime"]) for each in world.b.changed] == [("1", "0")]


def test_all_brokers_away_is_a_failure(world: World) -> None:
    world.a.server.stop()
    world.b.server.stop()
    world.lease()
    result = world.lease()
    assert isinstance(result, Failure)
    assert result.code is ErrorCode.STORE_UNAVAILABLE


def test_a_single_slow_broker_is_waited_for() -> None:
    world = World(brokers=1)
    world.a.put(3)
    answer = world.a._pop

    def slow(frame: Frame) -> Reply:
        found = answer(frame)
        assert found is not None
        later = world.clock.monotonic_ns() + 900_000_000
        world.clock.call_at(later, lambda: world.a.server.connections[-1].notify(reply_to(frame, *found)))
        return None

    world.a.server.on(codes.POP, slow)
    assert len(given(world.lease(2))) == 2
    assert len(given(world.lease(2))) == 1


def test_a_queue_is_asked_for_at_its_broker(world: World) -> None:
    world.a.put(1, queue_id=1)
    world.b.put(1, queue_id=1)
    queues = world.map.queues("T")
    at = next(at for at, each in enumerate(queues) if each == ("broker-b", 1))
    assert given(world.lease(queue_id=at)) == ["broker-b-1-0"]
    assert world.b.pops[0]["queueId"] == "1"
    assert not world.a.pops
    failure = world.lease(queue_id=99)
    assert isinstance(failure, Failure)
    assert failure.code is ErrorCode.QUEUE_ILLEGAL


def test_filters_are_passed_on_and_what_a_tag_does_not_match_is_settled(world: World) -> None:
    world.a.put(1, tag="A")
    world.a.put(1, tag="B")
    wanted = expression.compiled(TAG, "A")
    assert given(world.lease(wanted=wanted)) == ["broker-a-0-0"]
    assert world.a.pops[0]["exp"] == "A"
    assert world.a.pops[0]["expType"] == "TAG"
    # The hashes of two tags may be equal: the broker gives both.
    world.a.server.on(codes.POP, lambda frame: _without_filter(world.a, frame))
    result = world.lease(wanted=wanted)
    assert isinstance(result, LeaseResult)
    assert result.unfinished
    assert not result.messages
    assert world.a.settled == [(0, 0, 1)]
    sql = expression.compiled(SQL92, "a > 1")
    world.lease(wanted=sql)
    assert world.b.pops[-1]["exp"] == "a > 1"
    assert world.b.pops[-1]["expType"] == "SQL92"


def _without_filter(broker: PopBroker, frame: Frame) -> Reply:
    fields = dict(frame.fields() or {})
    fields["exp"] = "*"
    frame.set_fields(fields)
    return broker._pop(frame)


def test_an_ordered_group_asks_in_order_and_is_told_when_a_lease_ends(world: World) -> None:
    world.a.put(1)
    result = world.lease(ordered=True, attempt_id="one")
    assert isinstance(result, LeaseResult)
    [message] = result.messages
    asked = [*world.a.pops, *world.b.pops]
    assert {(each["order"], each["attemptId"]) for each in asked} == {("true", "one")}
    assert message.receipt.revive_queue == 999
    # The queue is blocked until the lease ends; its broker does not tell.
    world.a.server.on(codes.NOTIFICATION, lambda frame: None)
    world.leases.lease(world.request(ordered=True), lambda result: world._got(world.request(ordered=True), result))
    world.clock.run_for(50)
    assert len(world.parked) == 1
    world.a.put(1, tell=False)
    world.leases.settle("g", "T", [message.receipt], lambda _: None)
    world.clock.run_for(50)
    assert world.messages() == ["broker-a-0-1"]


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({}, b""),
        ({"popTime": "x"}, b""),
        ({"popTime": "1", "invisibleTime": "1", "reviveQid": "0", "startOffsetInfo": "0 0"}, b"\x00" * 91),
        ({"popTime": "1", "invisibleTime": "1", "reviveQid": "0"}, b"\x00\x00\x00\x5c" + b"\xff" * 88),
        ({"popTime": "9" * 30, "invisibleTime": "1", "reviveQid": "0"}, b"\x00"),
    ],
)
def test_an_answer_that_cannot_be_read_is_its_brokers_alone(world: World, fields: dict[str, str], body: bytes) -> None:
    world.b.server.on(codes.POP, lambda frame: (codes.SUCCESS, fields or {"a": "b"}, body or b"x"))
    world.a.put(2)
    assert [given(world.lease(1)) for _ in range(2)] == [["broker-a-0-0"], ["broker-a-0-1"]]
    result = world.lease(1)
    assert isinstance(result, Failure) or not result.messages


def test_a_refusal_of_all_brokers_is_the_answer(world: World) -> None:
    for each in (world.a, world.b):
        each.server.on(codes.POP, lambda frame: (codes.NO_PERMISSION, {"a": "b"}, b""))
    result = world.lease()
    assert isinstance(result, Failure)
    assert result.code is ErrorCode.NOT_ALLOWED


def test_half_of_the_last_record_is_no_message(world: World) -> None:
    world.a.put(2)
    answer = world.a._pop

    def half(frame: Frame) -> Reply:
        found = answer(frame)
        assert found is not None
        return found[0], found[1], found[2][:-10]

    world.a.server.on(codes.POP, half)
    result = world.lease()
    assert isinstance(result, Failure) or not result.messages


def test_brokers_that_know_no_pop_are_named_each_time(world: World) -> None:
    """Those before 5.0: "nothing there" would be believed, and the next receive would be told so too."""
    for server in world.cluster.brokers.values():
        for code in (codes.POP, codes.NOTIFICATION):
            server.on(code, lambda frame: (codes.NOT_SUPPORTED, {"a": "b"}, b"", "request type not supported"))
    for _ in range(4):
        failure = world.lease(run_ms=300)
        assert isinstance(failure, Failure)
        assert failure.code is ErrorCode.NOT_SUPPORTED
        assert "broker-" in failure.text
    assert sum(server.codes().count(codes.POP) for server in world.cluster.brokers.values()) <= 4


def test_a_broker_that_knows_no_pop_does_not_hide_the_others(world: World) -> None:
    for code in (codes.POP, codes.NOTIFICATION):
        world.cluster.brokers["broker-a"].on(code, lambda frame: (codes.NOT_SUPPORTED, {"a": "b"}, b""))
    for _ in range(3):
        assert given(world.lease(run_ms=300)) == []
    world.b.put(1)
    world.clock.run_for(10)
    assert given(world.lease()) == ["broker-b-0-0"]
