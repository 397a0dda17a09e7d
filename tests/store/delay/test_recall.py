"""Recalled timers are never delivered; all others at their time, over years, across restarts and retention."""

from __future__ import annotations

import random

from domain.delivery import recall
from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.message.record import Record
from store.settings import StoreSettings
from tests.store.driver import Driver, code_of, sure
from tests.stored_state import pairs

DAY_MS = 86_400_000


def timer(name: str, due_ms: int) -> Message:
    stored = b"UNIQ_KEY\x01%s\x02TIMER_DELIVER_MS\x01%d\x02" % (name.encode(), due_ms)
    return Message("t", name.encode(), stored, queue_id=0, message_id=name)


def put(driver: Driver, name: str, due_ms: int) -> str:
    """A timer; its handle."""
    return sure(driver.append([timer(name, due_ms)]))[0].recall_handle


def take(driver: Driver, text: str) -> Failure | None:
    found = recall.parse(text)
    assert found is not None
    assert found.broker == driver.config.broker
    result: Failure | None = driver.call(driver.store.timers.recall, found)
    return result


def test_a_timer_of_300_days_is_delivered_at_its_time_and_a_recalled_one_never() -> None:
    driver = Driver(StoreSettings(retention_ms=DAY_MS))
    driver.topic("t", retention_ms=1_000 * DAY_MS)
    due = driver.clock.wall_ms() + 300 * DAY_MS
    kept, gone = put(driver, "kept", due), put(driver, "gone", due)
    assert recall.parse(kept) == ("t", "broker-a", due, "kept")
    assert take(driver, gone) is None
    driver = driver.killed()
    assert take(driver, gone) is None, "once more is success"
    for _ in range(20):
        driver.send("t", b"x" * 10)
        driver.clock.stall(14 * DAY_MS)
        driver.clock.run_for(12_000)
        driver = driver.restarted()
    driver.clock.stall(due - driver.clock.wall_ms() - 50)
    driver.clock.run_for(49)
    assert b"kept" not in driver.bodies("t")
    driver.clock.run_for(1_100)
    record = next(found for found in map(Record, driver.read("t", driver.bounds("t")[0]).records) if found.body == b"kept")
    assert due <= record.store_ms <= due + 1_000
    driver.clock.run_for(60_000)
    assert driver.bodies("t").count(b"kept") == 1
    assert b"gone" not in driver.bodies("t")
    assert driver.store.figures()["timers"] == 0
    assert list(pairs(driver.store.state, "@timer", b"recalled-")) == []


def test_only_a_pending_timer_can_be_recalled() -> None:
    driver = Driver.with_topics("t")
    due = driver.clock.wall_ms() + 5_000
    one = put(driver, "one", due)
    for topic, due_ms, name in (("other", due, "one"), ("t", due + 1, "one"), ("t", due, "two"), ("t", due + DAY_MS, "one")):
        assert code_of(take(driver, recall.handle(topic, "broker-a", due_ms, name))) is ErrorCode.MESSAGE_NOT_FOUND
    driver.clock.run_for(6_000)
    assert driver.bodies("t") == [b"one"]
    assert code_of(take(driver, one)) is ErrorCode.MESSAGE_NOT_FOUND
    assert driver.send("t", b"now")[0].recall_handle == ""


def test_a_refused_recall_leaves_the_timer() -> None:
    driver = Driver.with_topics("t")
    one = put(driver, "one", driver.clock.wall_ms() + 5_000)
    driver.disk.free = 0.01
    driver.clock.run_for(1_500)
    assert isinstance(take(driver, one), Failure)
    driver.disk.free = 0.5
    driver.clock.run_for(8_000)
    assert driver.bodies("t") == [b"one"]


def test_recalls_under_kills_and_retention() -> None:
    for seed in range(12):
        chance = random.Random(seed)
        config = StoreSettings(retention_ms=60_000, segment_bytes=12_000, retention_check_ms=1_000, checkpoint_bytes=4_000)
        driver = Driver(config)
        driver.topic("t", retention_ms=30 * DAY_MS)
        driver.topic("noise")
        handles: dict[str, str] = {}
        dues: dict[str, int] = {}
        recalled: set[str] = set()
        for life in range(6):
            for number in range(40):
                name = f"{life}-{number}"
                dues[name] = driver.clock.wall_ms() + chance.choice((90_000, 400_000, 5_000_000))
                handles[name] = put(driver, name, dues[name])
            for name in chance.sample(sorted(handles), 30):
                result = take(driver, handles[name])
                if result is None:
                    assert dues[name] > driver.clock.wall_ms() - 1_000
                    recalled.add(name)
                else:
                    assert result.code is ErrorCode.MESSAGE_NOT_FOUND
                    assert dues[name] <= driver.clock.wall_ms() or name in recalled, (seed, name)
            driver.send("noise", *[b"x" * 400] * 40)
            driver.clock.run_for(chance.choice((1_000, 70_000)))
            driver = chance.choice((driver.killed, driver.restarted))()
        driver.clock.step_wall(5_100_000)
        driver.clock.run_for(10_000)
        seen = sorted(body.decode() for body in driver.bodies("t"))
        assert seen == sorted(set(dues) - recalled), seed
