"""Timers and delay levels: delivered on time and once, across restarts; invalid ones are refused."""

from __future__ import annotations

import random

import pytest

from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Durability
from store.delay import parking, timers
from store.settings import StoreSettings
from tests.store.driver import Driver, code_of

DAY_MS = 86_400_000


def timer(body: bytes, due_ms: int) -> Message:
    """A message for t, due at `due_ms`."""
    return Message("t", body, b"TIMER_DELIVER_MS\x01%d\x02" % due_ms, queue_id=0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("durability", [Durability.PAGE, Durability.FLUSHED])
def test_every_timer_is_delivered_once_in_order_and_never_early(seed: int, durability: Durability) -> None:
    generator = random.Random(seed)
    driver = Driver(StoreSettings(checkpoint_bytes=5_000, tail_rows_max=10, durability=durability))
    driver.topic("t", durability)
    dues: dict[bytes, int] = {}
    for life in range(5):
        for number in range(generator.randrange(1, 40)):
            body = b"%d-%d" % (life, number)
            if generator.random() < 0.3:
                level = generator.randrange(1, 7)
                driver.store.log.append([Message("t", body, b"DELAY\x01%d\x02" % level, queue_id=0)], None)
                dues[body] = driver.clock.wall_ms() + parking.LEVELS_MS[level - 1]
            else:
                dues[body] = driver.clock.wall_ms() + generator.choice((1, 5, 900, 30_000, 2_000_000, 5_000_000))
                driver.store.log.append([timer(body, dues[body])], None)
            driver.clock.run_for(generator.choice((0, 0, 3, 40)))
        driver.clock.run_for(generator.choice((2, 400, 3_000, 40_000)))
        driver.clock.run_for(0 if life % 2 else 3_000)
        if durability is Durability.FLUSHED:
            driver.clock.run_for(20)
        driver = generator.choice((driver.killed, driver.restarted))()
    driver.clock.run_for(10)
    driver.clock.stall(5_000_000)
    driver.clock.run_for(5_000)
    records = [Record(data) for data in driver.read("t").records]
    assert sorted(record.body for record in records) == sorted(dues)
    assert all(record.store_ms >= dues[record.body] for record in records)
    assert driver.store.figures()["timers"] == 0


def test_a_refused_delivery_does_not_repeat_one_that_is_stored_and_not_durable_yet() -> None:
    """A delivery is answered FLUSH_TIMEOUT, the next one is refused: the progress that is stored has neither."""
    driver = Driver.with_topics("t", config=StoreSettings(flush_timeout_ms=200, pending_bytes_max=2_000))
    now = driver.clock.wall_ms()
    driver.store.log.append([timer(b"first", now + 100), timer(b"second", now + 1_000)], None)
    driver.clock.run_for(50)
    driver.disk.hold_syncs = True
    driver.clock.run_for(900)
    assert driver.bodies("t") == [], "the first one is written, and not readable yet"
    driver.store.log.append([Message("t", bytes(2_000), b"", queue_id=1)], None)
    driver.clock.run_for(1_000)
    driver.disk.release()
    driver.clock.run_for(5_000)
    assert driver.bodies("t") == [b"first", b"second"]


def test_a_refused_delivery_after_a_late_one_and_one_in_time_is_tried_again() -> None:
    """The progress of the late delivery is not what is stored any more, because the next one has moved it."""
    driver = Driver.with_topics("t", config=StoreSettings(flush_timeout_ms=200, pending_bytes_max=2_000))
    now = driver.clock.wall_ms()
    dues = {b"late": 100, b"in time": 2_000, b"refused": 4_000, b"after it": 5_000}
    driver.store.log.append([timer(body, now + due) for body, due in dues.items()], None)
    driver.clock.run_for(50)
    driver.disk.hold_syncs = True
    driver.clock.run_for(900)
    driver.disk.release()
    driver.clock.run_for(2_000)
    assert driver.bodies("t") == [b"late", b"in time"]
    driver.disk.hold_syncs = True
    driver.store.log.append([Message("t", bytes(2_000), b"", queue_id=1)], None)
    driver.clock.run_for(1_500)
    driver.disk.release()
    driver.clock.run_for(5_000)
    assert driver.bodies("t") == list(dues)


def test_a_delay_level_counts_from_the_store_time_of_its_own_message() -> None:
    driver = Driver.with_topics("t")
    driver.store.log.append([Message("t", b"opens the batch", b"", queue_id=1)], None)
    driver.clock.step_wall(25)
    sent_ms = driver.clock.wall_ms()
    driver.store.log.append([Message("t", b"later", b"DELAY\x011\x02", queue_id=0)], None)
    driver.clock.run_for(2_000)
    [record] = [Record(data) for data in driver.read("t").records]
    assert record.store_ms >= sent_ms + parking.LEVELS_MS[0]


def test_timers_of_later_buckets_are_not_in_memory_and_delivered_buckets_are_dropped() -> None:
    driver = Driver.with_topics("t")
    now = driver.clock.wall_ms()
    for day in range(1, 366):
        driver.store.log.append([timer(b"%d" % day, now + day * DAY_MS)], None)
    driver.clock.run_for(100)
    wheel = driver.store.parts.wheel
    assert wheel.pending() == 365
    assert not wheel.timers._heap
    driver = driver.restarted()
    driver.clock.stall(200 * DAY_MS)
    driver.clock.run_for(5_000)
    assert driver.bounds("t") == (0, 200)
    assert driver.store.figures()["timers"] == 165
    assert driver.killed().store.figures()["timers"] == 165


def test_timers_of_one_millisecond_are_delivered_in_the_order_sent() -> None:
    driver = Driver.with_topics("t")
    due = driver.clock.wall_ms() + 60_000
    driver.append([timer(b"%d" % number, due) for number in range(1_000)])
    driver.clock.run_for(61_000)
    assert driver.bodies("t") == [b"%d" % number for number in range(1_000)]


@pytest.mark.parametrize(
    "value",
    [b"TIMER_DELIVER_MS\x01soon\x02", b"TIMER_DELAY_SEC\x0131708800\x02", b"DELAY\x01x\x02", b"TIMER_DELAY_MS\x019e9\x02"],
)
def test_invalid_delays_are_refused(value: bytes) -> None:
    driver = Driver.with_topics("t")
    result = driver.append([Message("t", b"a", queue_id=0), Message("t", b"b", value, queue_id=0)])
    assert code_of(result) is ErrorCode.DELIVERY_TIME_ILLEGAL
    assert driver.bounds("t") == (0, 0), "nothing of a refused append is stored"


def test_a_past_time_is_due_now_and_a_level_too_high_is_the_highest() -> None:
    driver = Driver.with_topics("t")
    place = driver.append([timer(b"now", driver.clock.wall_ms() - 5)])
    assert driver.bodies("t") == [b"now"]
    assert not isinstance(place, Failure)
    high = driver.append([Message("t", b"a", b"DELAY\x0199\x02", queue_id=0)])
    assert not isinstance(high, Failure)
    assert high[0].queue_id == 17


@pytest.mark.parametrize(
    ("stored", "waits_ms"),
    [
        (b"TIMER_DELIVER_MS\x01%d\x02", 2_000),
        (b"TIMER_DELAY_MS\x011500\x02TIMER_DELIVER_MS\x01%d\x02", 1_500),
        (b"TIMER_DELAY_MS\x011500\x02TIMER_DELAY_SEC\x011\x02TIMER_DELIVER_MS\x01%d\x02", 1_000),
        (b"DELAY\x010\x02TIMER_DELIVER_MS\x01%d\x02", 2_000),
    ],
    ids=["instant", "milliseconds before it", "seconds before these", "level 0 is none"],
)
def test_a_delivered_timer_keeps_the_senders_properties_and_is_not_parked_again(stored: bytes, waits_ms: int) -> None:
    driver = Driver.with_topics("t")
    now = driver.clock.wall_ms()
    given = stored % (now + 2_000)
    driver.append([Message("t", b"a", b"KEYS\x01k\x02" + given, queue_id=0)])
    driver.clock.run_for(waits_ms - 100)
    assert driver.bodies("t") == []
    driver.clock.run_for(200)
    [record] = [Record(data) for data in driver.read("t").records]
    kept = given.removeprefix(b"DELAY\x010\x02")
    assert record.properties == b"KEYS\x01k\x02" + kept + b"TIMER_OUT_MS\x01%d\x02" % (now + waits_ms)
    driver.append([Message("t", b"again", record.properties, queue_id=0)])
    assert driver.bodies("t") == [b"a", b"again"], "who sends on what he was given does not make a second timer of it"


def test_consumers_see_a_past_delivery_time_and_a_delay_level() -> None:
    driver = Driver.with_topics("t")
    past = b"TIMER_DELIVER_MS\x01%d\x02" % (driver.clock.wall_ms() - 5)
    driver.append([Message("t", b"past", past, queue_id=0)])
    driver.append([Message("t", b"level", b"DELAY\x011\x02" + past, queue_id=0)])
    driver.clock.run_for(2_000)
    driver = driver.killed()
    driver.clock.run_for(2_000)
    assert [Record(data).properties for data in driver.read("t").records] == [past, b"DELAY\x011\x02"]


def test_timers_of_a_deleted_topic_are_discarded() -> None:
    driver = Driver.with_topics("t")
    driver.append([timer(b"a", driver.clock.wall_ms() + 1_000)])
    driver.call(driver.store.metadata.delete_topic, "t")
    driver.clock.run_for(3_000)
    assert driver.store.metadata.topics() == []
    assert driver.bounds("t") == (0, 0)
    assert driver.store.figures()["timers"] == 0


@pytest.mark.parametrize("end", ["", "killed", "restarted"])
def test_a_bucket_is_loaded_in_slices_and_its_timers_come_in_order(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(timers, "SLICE_ROWS", 10)
    driver = Driver.with_topics("t")
    bucket_ms = 1 << parking.BUCKET_BITS
    begin = (driver.clock.wall_ms() // bucket_ms + 2) * bucket_ms
    dues = [begin + 1_000 + at * 7 % 100 for at in range(100)]
    for due in dues:
        driver.store.log.append([timer(b"%d" % due, due)], None)
    driver.clock.run_for(1_000)
    driver.clock.stall(begin - timers.AHEAD_MS - driver.clock.wall_ms() - 1)
    if end:
        driver = getattr(driver, end)()
    loaded = driver.store.parts.wheel.timers._heap
    assert loaded == []
    most, before = 0, 0
    for _ in range(6_000):
        driver.clock.run_for(0.5)
        most = max(most, len(loaded) - before)
        before = len(loaded)
    assert (most, len(loaded)) == (10, 100), (most, len(loaded))
    assert driver.store.figures()["timers"] == 100
    driver.store.log.append([timer(b"late", begin + 500)], None)
    driver.clock.stall(begin - driver.clock.wall_ms())
    driver.clock.run_for(2_000)
    assert driver.bodies("t") == [b"late", *[b"%d" % due for due in sorted(dues)]]


def test_after_a_long_absence_nothing_of_a_bucket_is_delivered_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "SLICE_ROWS", 10)
    driver = Driver.with_topics("t")
    now = driver.clock.wall_ms()
    dues = [now + 3_600_000 + (100 - at) * 50_000 for at in range(100)]
    for due in dues:
        driver.store.log.append([timer(b"%d" % due, due)], None)
    driver.clock.run_for(1_000)
    driver = driver.restarted()
    driver.clock.stall(3 * 3_600_000)
    driver.clock.run_for(5_000)
    assert driver.bodies("t") == [b"%d" % due for due in sorted(dues)]
