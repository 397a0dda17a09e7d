"""Lite queues: second rows for the same records, rebuilt from the log, leased in order, dropped one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from domain.errors import Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.topic import lite
from domain.topic.lite import LiteLeaseResult
from domain.topic.topic import Durability
from store.settings import StoreSettings
from tests.store.driver import Driver, RecordingListener, sure
from tests.stored_state import value_of

SMALL = StoreSettings(
    segment_bytes=8_192, index_segment_bytes=4_096, tail_rows_max=8, checkpoint_bytes=6_000, checkpoint_ms=1_000
)


class RecordingLiteListener:
    """A LiteListener that records its calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.frees: list[tuple[str, str, str]] = []

    def lite_arrived(self, parent: str, lite_topic: str) -> None:
        self.seen.append((parent, lite_topic))

    def lite_freed(self, group: str, parent: str, lite_topic: str) -> None:
        self.frees.append((group, parent, lite_topic))


def message(lite_topic: str, body: bytes, parent: str = "p", queue_id: int = 0) -> Message:
    """A message as the gateway gives it to the store."""
    stored = properties.encode([("__LITE_TOPIC", lite_topic), ("INNER_MULTI_DISPATCH", lite.queue_name(parent, lite_topic))])
    return Message(parent, body, stored, queue_id=queue_id)


def send(driver: Driver, lite_topic: str, *bodies: str, parent: str = "p") -> None:
    sure(driver.append([message(lite_topic, body.encode(), parent) for body in bodies]))


def bodies(driver: Driver, lite_topic: str, parent: str = "p") -> list[str]:
    return [body.decode() for body in driver.bodies(lite.queue_name(parent, lite_topic))]


def lease(
    driver: Driver, *names: str, limit: int = 32, group: str = "g", attempt: str = "", ms: int = 10_000
) -> LiteLeaseResult:
    result: LiteLeaseResult | Failure = driver.call(driver.store.lite_queues.lease, group, "p", names, limit, ms, attempt)
    return sure(result)


def notified(leases: LiteLeaseResult) -> list[str]:
    return [Record(each.record).body.decode() for each in leases.messages]


def settle(driver: Driver, lite_topic: str, leases: LiteLeaseResult) -> None:
    assert driver.settle("g", lite.queue_name("p", lite_topic), *leases.messages) == [None] * len(leases.messages)


@pytest.fixture
def driver() -> Driver:
    """A store with a topic of type LITE and one of type NORMAL."""
    made = Driver(SMALL)
    made.topic("p", type="LITE", read_queues=2, write_queues=2)
    made.topic("plain")
    return made


def test_a_message_is_in_its_topic_and_in_its_lite_queue(driver: Driver) -> None:
    listener, lite_listener = RecordingListener(), RecordingLiteListener()
    driver.store.log.listen(listener)
    driver.store.lite_queues.listen(lite_listener)
    send(driver, "a", "1")
    sure(driver.append([message("b", b"2"), message("a", b"3", queue_id=1)]))
    assert (bodies(driver, "a"), bodies(driver, "b"), driver.bodies("p")) == (["1", "3"], ["2"], [b"1", b"2"])
    record = Record(driver.read(lite.queue_name("p", "a"), 1).records[0])
    assert (record.topic, record.queue_offset, lite.offset_in(record.properties)) == ("p", 0, 1)
    assert properties.text(record.properties, "INNER_MULTI_DISPATCH") == "%LMQ%$p$a"
    assert listener.seen == [("p", 0, 0), ("p", 0, 1), ("p", 1, 0)]
    assert lite_listener.seen == [("p", "a"), ("p", "b"), ("p", "a")]
    assert (sorted(driver.store.lite_queues.names("p")), driver.store.lite_queues.count("")) == (["a", "b"], 2)


def test_only_topics_of_type_lite_have_lite_queues(driver: Driver) -> None:
    forged = properties.encode([("__LITE_TOPIC", "a"), ("INNER_MULTI_DISPATCH", "%LMQ%$plain$a")])
    driver.send("plain", b"x", properties=forged)
    assert driver.bounds("%LMQ%$plain$a") == (0, 0)
    after = driver.killed()
    assert (after.bounds("%LMQ%$plain$a"), after.bodies("plain")) == ((0, 0), [b"x"])


def dispatched(names: Sequence[str], body: bytes, own: str = "") -> Message:
    """A message for several lite topics of `p`, as the gateway gives it to the store."""
    queues = ",".join(lite.queue_name("p", name) for name in names)
    pairs = [("__LITE_TOPIC", own)] if own else []
    return Message("p", body, properties.encode([*pairs, ("INNER_MULTI_DISPATCH", queues)]), queue_id=0)


def seen(driver: Driver, lite_topic: str) -> list[tuple[str, str, int]]:
    """(body, lite topic, offset) of the messages in a lite queue, as its readers are told."""
    result = driver.read(lite.queue_name("p", lite_topic), 0)
    records = [Record(each) for each in result.records]
    for each in records:
        assert properties.text(each.properties, "INNER_MULTI_DISPATCH") == lite.queue_name("p", lite_topic)
    return [(each.body.decode(), lite.name_in(each.properties), lite.offset_in(each.properties)) for each in records]


def test_a_message_fills_every_lite_queue_that_it_names_and_each_is_settled_on_its_own(driver: Driver) -> None:
    send(driver, "b", "1")
    sure(driver.append([dispatched(["a", "b", "c"], b"2", "a"), dispatched(["c", "b"], b"3")]))
    want = {"a": [("2", "a", 0)], "b": [("1", "b", 0), ("2", "b", 1), ("3", "b", 2)], "c": [("2", "c", 0), ("3", "c", 1)]}
    assert driver.bodies("p") == [b"1", b"2", b"3"], "stored once"
    for after in (driver, driver.killed()):
        assert {name: seen(after, name) for name in "abc"} == want
        driver = after
    taken = lease(driver, "a", "b")
    assert notified(taken) == ["2", "1", "2", "3"]
    named = [(lite.name_in(Record(each.record).properties), each.receipt.queue_offset) for each in taken.messages]
    assert named == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]
    assert driver.settle("g", "%LMQ%$p$b", *taken.messages[1:]) == [None] * 3
    for again in (driver.killed, driver.restarted, driver.powered_off):
        driver = again()
        driver.clock.run_for(10)
        assert {name: seen(driver, name) for name in "abc"} == want
    driver.clock.run_for(11_000)
    assert notified(lease(driver, "a", "b", "c")) == ["2", "2", "3"]
    assert driver.call(driver.store.lite_queues.drop, "p", ["c"], ["g"]) is None
    driver = driver.killed()
    assert {name: seen(driver, name) for name in "abc"} == {**want, "c": []}


@pytest.mark.parametrize("seed", range(4))
def test_lite_queues_that_share_messages_are_whole_after_every_end(seed: int) -> None:
    generator = random.Random(seed)
    driver = Driver(SMALL)
    driver.topic("p", generator.choice([Durability.PAGE, Durability.FLUSHED]), type="LITE")
    wanted: dict[str, list[str]] = {name: [] for name in "abcdefgh"}
    for turn in range(80):
        names = generator.sample("abcdefgh", generator.randint(1, 8))
        sure(driver.append([dispatched(names, b"%d" % turn)]))
        for name in names:
            wanted[name].append(str(turn))
        if generator.random() < 0.1:
            driver = driver.killed() if generator.random() < 0.6 else driver.restarted()
            driver.clock.run_for(10)
    driver = driver.killed()
    assert {name: bodies(driver, name) for name in wanted} == wanted
    for name, found in wanted.items():
        assert [(text, at) for text, _, at in seen(driver, name)] == [(text, at) for at, text in enumerate(found)]


def test_retention_empties_lite_queues_that_share_messages() -> None:
    driver = Driver(StoreSettings(retention_ms=600_000, retention_check_ms=1_000, checkpoint_ms=1_000))
    driver.topic("p", type="LITE", retention_ms=20_000)
    sure(driver.append([dispatched(["a", "b"], b"1")]))
    driver.clock.run_for(15_000)
    sure(driver.append([dispatched(["b", "c"], b"2")]))
    driver.clock.run_for(7_000)
    for after in (driver, driver.killed()):
        after.clock.run_for(1_500)
        sure(after.append([dispatched(["b"], b"3")]))
        after.clock.run_for(1_500)
        assert [after.bounds(f"%LMQ%$p${name}")[0] for name in "abc"] == [1, 1, 0]
        assert (bodies(after, "a"), bodies(after, "b")[0], bodies(after, "c")) == ([], "2", ["2"])


def test_a_lite_topic_is_delivered_in_order_and_others_do_not_wait(driver: Driver) -> None:
    send(driver, "a", "a1", "a2")
    send(driver, "b", "b1")
    first = lease(driver, "a", "b", limit=1)
    assert (notified(first), first.looked) == (["a1"], 1)
    second = lease(driver, "a", "b", "none")
    assert (notified(second), second.looked) == (["b1"], 3)
    settle(driver, "a", first)
    third = lease(driver, "a", "b")
    assert notified(third) == ["a2"]
    receipts = [leases.messages[0].receipt for leases in (first, second, third)]
    assert [(each.queue_id, each.queue_offset) for each in receipts] == [(0, 0), (0, 0), (0, 1)]
    assert {each.revive_queue for each in receipts} == {999}


def test_all_messages_of_a_call_have_one_pop_time_even_after_a_lease_in_the_same_millisecond(driver: Driver) -> None:
    for name in ("a", "b", "c"):
        send(driver, name, name)
    assert notified(lease(driver, "b", ms=1)) == ["b"]
    driver.clock.run_for(2)
    again = lease(driver, "a", "b", "c")
    assert notified(again) == ["a", "b", "c"]
    assert {each.receipt.pop_ms for each in again.messages} == {again.pop_ms}
    assert [each.attempt for each in again.messages] == [1, 2, 1]


def test_a_repeated_attempt_gets_the_same_messages_without_a_delivery_counted(driver: Driver) -> None:
    send(driver, "a", "1", "2")
    assert notified(lease(driver, "a", attempt="x")) == ["1", "2"]
    again = lease(driver, "a", attempt="x")
    assert (notified(again), [each.attempt for each in again.messages]) == (["1", "2"], [1, 1])
    assert notified(lease(driver, "a", attempt="y")) == []


def test_listeners_are_told_when_a_lite_topic_is_free_again(driver: Driver) -> None:
    listener = RecordingLiteListener()
    driver.store.lite_queues.listen(listener)
    send(driver, "a", "1")
    settle(driver, "a", lease(driver, "a"))
    assert listener.frees == [("g", "p", "a")]
    send(driver, "a", "2")
    lease(driver, "a", ms=100)
    driver.clock.run_for(200)
    assert listener.frees == [("g", "p", "a")] * 2


def test_an_uncounted_lease_is_not_an_attempt(driver: Driver) -> None:
    send(driver, "a", "1")
    leases = lease(driver, "a", ms=100)
    driver.store.lite_queues.uncount("g", "%LMQ%$p$a", leases.messages[0].receipt.queue_offset)
    driver.clock.run_for(200)
    assert [each.attempt for each in lease(driver, "a").messages] == [1]


@pytest.mark.parametrize("seed", range(6))
def test_after_a_kill_exactly_the_unsettled_messages_are_redelivered_in_order(seed: int) -> None:
    generator = random.Random(seed)
    driver = Driver(SMALL)
    driver.topic("p", generator.choice([Durability.PAGE, Durability.FLUSHED]), type="LITE")
    names = [f"n{at}" for at in range(12)]
    sent: dict[str, list[str]] = {name: [] for name in names}
    settled: dict[str, int] = dict.fromkeys(names, 0)
    for turn in range(120):
        name = generator.choice(names)
        sent[name].append(f"{name}.{len(sent[name])}")
        send(driver, name, sent[name][-1])
        if turn % 3 == 0:
            taken = lease(driver, *names, limit=generator.randint(1, 5), ms=60_000)
            for each in taken.messages:
                lite_topic = lite.name_in(Record(each.record).properties)
                assert each.receipt.queue_offset == settled[lite_topic]
                assert driver.settle("g", lite.queue_name("p", lite_topic), each) == [None]
                settled[lite_topic] += 1
        if generator.random() < 0.1:
            driver = driver.killed() if generator.random() < 0.6 else driver.restarted()
            driver.clock.run_for(10)
    driver = driver.killed()
    driver.clock.run_for(61_000)
    for name in names:
        assert bodies(driver, name) == sent[name]
        assert notified(lease(driver, name)) == sent[name][settled[name] :][:32]


def test_a_dropped_lite_topic_stays_dropped_until_a_new_message(driver: Driver) -> None:
    send(driver, "a", "1", "2")
    send(driver, "b", "1")
    settle(driver, "a", lease(driver, "a"))
    assert driver.call(driver.store.lite_queues.drop, "p", ["a", "none"], ["g", "h"]) is None
    assert (bodies(driver, "a"), list(driver.store.lite_queues.names("p"))) == ([], ["b"])
    for again in (driver.killed, driver.restarted):
        after = again()
        assert (bodies(after, "a"), bodies(after, "b"), driver.bodies("p")) == ([], ["1"], [b"1", b"2", b"1"])
        assert isinstance(after.call(after.store.positions.offset, "g", "%LMQ%$p$a", 0), Failure)
        driver = after
    send(driver, "a", "3")
    driver = driver.killed()
    assert bodies(driver, "a") == ["3"]
    assert notified(lease(driver, "a")) == ["3"]


def test_deleting_a_topic_deletes_its_lite_topics(driver: Driver) -> None:
    send(driver, "a", "1", "2")
    lease(driver, "a")
    assert driver.call(driver.store.metadata.delete_topic, "p") is None
    assert (bodies(driver, "a"), driver.store.lite_queues.count("p")) == ([], 0)
    assert isinstance(driver.call(driver.store.positions.offset, "g", "%LMQ%$p$a", 0), Failure)
    driver.topic("p", type="LITE")
    send(driver, "a", "3")
    for after in (driver.killed(), driver.restarted()):
        assert bodies(after, "a") == ["3"]


def test_a_lite_queue_emptied_by_retention_continues_at_its_next_offset() -> None:
    driver = Driver(StoreSettings(segment_bytes=8_192, retention_ms=60_000, retention_check_ms=1_000, checkpoint_ms=1_000))
    driver.topic("p", type="LITE")
    driver.topic("plain")
    send(driver, "a", "1", "2", "3")
    send(driver, "b", "1")
    assert driver.call(driver.store.lite_queues.drop, "p", ["b"], []) is None
    for _ in range(6):
        driver.send("plain", *[bytes(1_000)] * 8)
        driver.clock.run_for(40_000)
    assert driver.bounds("%LMQ%$p$a") == (3, 3)
    assert value_of(driver.store.state, "@empty", b"%LMQ%$p$b\x000") is None, "nothing is left that could bring it back"
    after = driver.killed()
    after.clock.run_for(10)
    send(after, "a", "4")
    send(after, "b", "2")
    assert after.bounds("%LMQ%$p$a") == (3, 4)
    last = after.killed()
    assert (bodies(last, "a"), bodies(last, "b")) == (["4"], ["2"])


def test_retention_ms_of_a_topic_trims_its_lite_queues_too() -> None:
    driver = Driver(StoreSettings(retention_ms=600_000, retention_check_ms=1_000, checkpoint_ms=1_000))
    driver.topic("p", type="LITE", read_queues=2, write_queues=2, retention_ms=20_000)
    sure(driver.append([message("a", b"1"), message("a", b"2", queue_id=1), message("b", b"1")]))
    leases = lease(driver, "b")
    settle(driver, "b", leases)
    driver.clock.run_for(15_000)
    sure(driver.append([message("a", b"3", queue_id=1)]))
    driver.clock.run_for(7_000)
    for after in (driver, driver.killed()):
        after.clock.run_for(1_500)
        sure(after.append([message("c", b"x")]))
        after.clock.run_for(1_500)
        assert (after.bounds("%LMQ%$p$a"), after.bounds("%LMQ%$p$b")) == ((2, 3), (1, 1))
        assert notified(lease(after, "a", "b")) == ["3"]
        assert after.call(after.store.positions.offset, "g", "%LMQ%$p$b", 0) == 1


def test_retention_bytes_of_a_topic_trim_its_lite_queues_too() -> None:
    """The newest bytes stay, whichever queue of the parent they are in: queues and lite queues have lost the same messages."""
    driver = Driver(StoreSettings(retention_check_ms=1_000, checkpoint_ms=1_000))
    driver.topic("p", type="LITE", read_queues=2, write_queues=2, retention_bytes=4_500)
    for number in range(10):
        name = "a" if number % 3 else "b"
        sure(driver.append([message(name, b"%d" % number + b"." * 800, queue_id=int(number > 7))]))
    for after in (driver, driver.killed(), driver.powered_off()):
        after.clock.run_for(1_500)
        sure(after.append([message("c", b"x")]))
        after.clock.run_for(1_500)
        stored = [body[:1] for queue in (0, 1) for body in (after.bodies("p", queue))]
        light = [text[:1] for name in ("b", "a", "c") for text in bodies(after, name)]
        assert sorted(text.decode() for text in stored) == sorted(light)
        assert "9" in light
        assert "4" not in light, "4,500 bytes, a little above 900 each"
