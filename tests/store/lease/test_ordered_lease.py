"""Ordered leasing: one message of an ordering key at a time, through kills and repeated attempts."""

from __future__ import annotations

import random

import pytest

from domain.message.record import Record
from domain.store.store_ports import LeaseResult
from store.lease.ordered_lease import DEFERRED_MAX
from tests.store.driver import Driver, RecordingListener


def keyed(driver: Driver, *bodies: str) -> None:
    """Messages whose first letter is their key; "-" has none."""
    for body in bodies:
        stored = b"" if body[0] == "-" else b"__SHARDINGKEY\x01" + body[:1].encode() + b"\x02"
        driver.send("t", body.encode(), properties=stored)


def lease(driver: Driver, limit: int = 32, attempt_id: str = "", invisible_ms: int = 10_000) -> LeaseResult:
    return driver.lease("g", "t", limit, invisible_ms, ordered=True, attempt_id=attempt_id)


def bodies(result: LeaseResult) -> list[str]:
    return [Record(message.record).body.decode() for message in result.messages]


@pytest.fixture
def driver() -> Driver:
    return Driver.with_topics("t")


def test_other_ordering_keys_are_delivered_while_one_is_leased(driver: Driver) -> None:
    keyed(driver, "a1", "b1", "a2", "c1", "b2")
    first = lease(driver, limit=2)
    assert bodies(first) == ["a1", "b1"]
    second = lease(driver)
    assert bodies(second) == ["c1"]
    assert bodies(lease(driver)) == []
    assert driver.settle("g", "t", first.messages[1]) == [None]
    third = lease(driver)
    assert bodies(third) == ["b2"]
    assert [message.attempt for message in third.messages] == [1], "waiting was no delivery"
    driver.settle("g", "t", *first.messages, *second.messages, *third.messages)
    last = lease(driver)
    assert bodies(last) == ["a2"]
    driver.settle("g", "t", *last.messages)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 5


def test_messages_without_an_ordering_key_block_the_queue(driver: Driver) -> None:
    keyed(driver, "-1", "a1", "-2", "a2")
    assert bodies(lease(driver, limit=1)) == ["-1"]
    first = lease(driver)
    assert bodies(first) == ["a1"]
    driver.settle("g", "t", *first.messages)
    assert bodies(lease(driver)) == []


def test_a_redelivery_waits_until_a_later_message_of_its_key_is_settled(driver: Driver) -> None:
    keyed(driver, "a1", "a2", "b1")
    first = lease(driver)
    assert bodies(first) == ["a1", "a2", "b1"]
    driver.call(driver.store.leases.extend, "g", "t", [first.messages[0].receipt], 0)
    driver.clock.run_for(100)
    assert bodies(lease(driver)) == []
    driver.settle("g", "t", first.messages[1])
    again = lease(driver)
    assert [(message.receipt.queue_offset, message.attempt) for message in again.messages] == [(0, 2)]


def test_settling_a_message_notifies_receivers_that_wait_for_its_key(driver: Driver) -> None:
    listener = RecordingListener()
    driver.store.log.listen(listener)
    keyed(driver, "a1", "b1", "a2")
    first = lease(driver, limit=2)
    driver.settle("g", "t", first.messages[0])
    assert listener.frees == [("g", "t")]


@pytest.mark.parametrize("kill", [False, True])
def test_a_repeated_attempt_gets_the_same_messages_and_no_others(driver: Driver, kill: bool) -> None:
    keyed(driver, "a1", "a2", "b1", "c1")
    assert bodies(lease(driver, limit=2, attempt_id="one")) == ["a1", "a2"]
    assert bodies(lease(driver, limit=1, attempt_id="two")) == ["b1"]
    if kill:
        driver = driver.killed()
    again = lease(driver, attempt_id="one")
    assert bodies(again) == ["a1", "a2"]
    assert [message.attempt for message in again.messages] == [1, 1]
    same = lease(driver, attempt_id="two")
    assert bodies(same) == ["b1"]
    assert bodies(lease(driver, attempt_id="three")) == ["c1"]
    driver.settle("g", "t", *again.messages, *same.messages)
    assert bodies(lease(driver, attempt_id="one")) == []


def test_the_number_of_deferred_messages_is_bounded(driver: Driver) -> None:
    keyed(driver, "a0")
    stored = b"__SHARDINGKEY\x01a\x02"
    for _ in range(11):
        driver.send("t", *[b"a"] * 100, properties=stored)
    keyed(driver, "b1")
    assert len(lease(driver, limit=1).messages) == 1
    assert bodies(lease(driver)) == []
    assert driver.store.figures()["leases"] == DEFERRED_MAX + 1


def test_a_group_that_is_no_longer_ordered_gets_deferred_messages(driver: Driver) -> None:
    keyed(driver, "a1", "a2", "b1")
    lease(driver, limit=1)
    lease(driver)
    found = driver.lease("g", "t")
    assert [(message.receipt.queue_offset, message.attempt) for message in found.messages] == [(1, 1)]


@pytest.mark.parametrize("seed", range(12))
def test_no_message_of_a_key_overtakes_another_through_kills(seed: int) -> None:
    """Three members work at random, and the node is killed at random; leased messages are compared with settled ones."""
    chance = random.Random(seed)
    driver = Driver.with_topics("t")
    sent: list[str] = []
    settled: set[str] = set()
    held: dict[str, tuple[int, object]] = {}
    attempts: dict[str, int] = {}
    for step in range(400):
        now = driver.clock.wall_ms()
        held = {body: entry for body, entry in held.items() if entry[0] > now}
        act = chance.random()
        if act < 0.25 and len(sent) < 80:
            body = f"{chance.choice('aabcd-')}{len(sent)}"
            keyed(driver, body)
            sent.append(body)
        elif act < 0.6:
            result = lease(driver, chance.randrange(1, 5), f"try{step}" if chance.random() < 0.5 else "", 2_000)
            given = bodies(result)
            for at, message in enumerate(result.messages):
                body = given[at]
                assert body not in settled, f"{body} was settled"
                assert body not in held, f"{body} is out"
                earlier = [one for one in sent[: sent.index(body)] if one[0] == body[0]]
                assert all(one in settled or one in given[:at] for one in earlier), f"{body} overtakes one of {earlier}"
                assert message.attempt == attempts.get(body, 0) + 1
                attempts[body] = message.attempt
            held.update({body: (result.pop_ms + 2_000, message) for body, message in zip(given, result.messages, strict=True)})
        elif act < 0.85 and held:
            body = chance.choice(sorted(held))
            assert driver.settle("g", "t", held.pop(body)[1]) == [None]  # type: ignore[arg-type]
            settled.add(body)
        elif act < 0.92:
            driver.clock.run_for(chance.randrange(1, 3_000))
        elif act < 0.96:
            driver = driver.killed()
        elif held:
            body = chance.choice(sorted(held))
            entry = held.pop(body)[1]
            driver.call(driver.store.leases.extend, "g", "t", [entry.receipt], 0)  # type: ignore[attr-defined]
            driver.clock.run_for(20)
    for _ in range(400):
        driver.clock.run_for(2_500)
        result = lease(driver)
        driver.settle("g", "t", *result.messages)
        settled.update(bodies(result))
        if len(settled) == len(sent):
            break
    assert settled == set(sent)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == len(sent)
