"""`append_once`: one append for each key, over repetitions, kills, power failures and checkpoints."""

from __future__ import annotations

import random
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.once import OnceKey, digest
from domain.topic.topic import Durability
from store.settings import StoreSettings
from tests.store.driver import Driver, code_of, sure


def once(driver: Driver, key: bytes, body: bytes = b"x", scope: str = "s", stored: bytes = b"") -> list[Placed] | Failure:
    message = Message("t", body, properties.entry(properties.UNIQ_KEY, f"id-{key.decode()}") + stored, queue_id=0)
    message.message_id = f"id-{key.decode()}"
    result: list[Placed] | Failure = driver.call(driver.store.log.append_once, OnceKey(scope, key, digest(body)), [message])
    return result


def facts(result: list[Placed] | Failure) -> list[tuple[Any, ...]]:
    return [
        (place.queue_id, place.queue_offset, place.physical_offset, place.store_ms, place.message_id, place.recall_handle)
        for place in sure(result)
    ]


def ready(**settings: Any) -> Driver:
    return Driver.with_topics("t", config=StoreSettings(**settings))


def test_a_repetition_gets_the_first_answer_and_appends_nothing() -> None:
    driver = ready()
    first = facts(once(driver, b"k"))
    driver.clock.run_for(1_000)
    assert facts(once(driver, b"k")) == first
    assert facts(once(driver, b"other")) != first
    assert facts(once(driver, b"k", scope="another")) != first
    assert len(driver.bodies("t")) == 3
    assert driver.store.figures()["once_repeated_total"] == 1


def test_another_message_under_a_known_key_is_refused() -> None:
    driver = ready()
    once(driver, b"k", b"this")
    failure = once(driver, b"k", b"that")
    assert code_of(failure) is ErrorCode.KEY_REUSED
    assert driver.bodies("t") == [b"this"]


def test_repetitions_during_the_first_append_wait_for_its_answer() -> None:
    driver = ready()
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    for body in (b"a", b"a", b"b", b"a"):
        message = Message("t", body, queue_id=0, message_id="m")
        driver.store.log.append_once(OnceKey("s", b"k", digest(body)), [message], answers.append)
        driver.clock.run_turn()
    assert [isinstance(answer, Failure) for answer in answers] == [True], "the other body"
    driver.disk.release()
    driver.clock.run_for(20)
    assert len(answers) == 4
    assert len({str(facts(answer)) for answer in answers[1:]}) == 1
    assert driver.bodies("t") == [b"a"]


def test_a_failure_is_the_answer_of_all_who_wait_and_is_not_remembered() -> None:
    driver = ready(flush_timeout_ms=100)
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    key = OnceKey("s", b"k")
    for _ in range(2):
        driver.store.log.append_once(key, [Message("t", b"a", queue_id=0)], answers.append)
    driver.clock.run_for(300)
    driver.store.log.append_once(key, [Message("t", b"a", queue_id=0)], answers.append)
    assert [answer.code for answer in answers if isinstance(answer, Failure)] == [ErrorCode.FLUSH_TIMEOUT] * 3
    driver.disk.release()
    driver.clock.run_for(20)
    driver.store.log.append_once(key, [Message("t", b"a", queue_id=0)], answers.append)
    assert len(sure(answers[3])) == 1
    assert driver.bodies("t") == [b"a"], "the flush came late, and the key with it"


def test_what_the_store_refuses_can_be_asked_again() -> None:
    driver = ready(pending_bytes_max=1_000)
    driver.disk.hold_syncs = True
    driver.store.log.append([Message("t", b"x" * 2_000, queue_id=0)], None)
    driver.clock.run_turn()
    refused = once(driver, b"k")
    assert code_of(refused) is ErrorCode.OVERLOADED
    driver.disk.release()
    driver.clock.run_for(20)
    sure(once(driver, b"k"))
    assert driver.bodies("t")[1:] == [b"x"]


@pytest.mark.parametrize("end", ["killed", "powered_off", "restarted"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_keys_survive(end: str, checkpoint: bool) -> None:
    driver = ready()
    first = {number: facts(once(driver, b"%d" % number)) for number in range(20)}
    if checkpoint:
        driver.checkpoint()
    driver = getattr(driver, end)()
    for number in range(20):
        assert facts(once(driver, b"%d" % number)) == first[number]
    assert len(driver.bodies("t")) == 20
    refused = once(driver, b"3", b"other")
    assert isinstance(refused, Failure)


@pytest.mark.parametrize("seed", range(30))
def test_no_message_twice_over_kills_at_any_time(seed: int) -> None:
    """A client repeats each request until it has an answer; the node is killed or loses power at random times."""
    chance = random.Random(seed)
    driver = ready()
    for number in range(30):
        for _ in range(50):
            answers: list[list[Placed] | Failure] = []
            key = OnceKey("s", b"%d" % number, digest(b"%d" % number))
            driver.store.log.append_once(key, [Message("t", b"%d" % number, queue_id=0)], answers.append)
            for _ in range(chance.randrange(4)):
                driver.clock.run_turn()
            if chance.random() < 0.3:
                driver = driver.killed() if chance.random() < 0.5 else driver.powered_off()
                continue
            driver.clock.run_until(lambda answers=answers: bool(answers))  # type: ignore[misc]
            if not isinstance(answers[0], Failure):
                break
    assert driver.bodies("t") == [b"%d" % number for number in range(30)]


def test_keys_are_forgotten_after_their_time() -> None:
    driver = ready(once_window_ms=10_000)
    once(driver, b"k")
    driver.clock.run_for(9_000)
    once(driver, b"k")
    assert len(driver.bodies("t")) == 1
    driver.clock.run_for(2_500)
    assert driver.store.figures()["once_keys"] == 0
    once(driver, b"k")
    assert len(driver.bodies("t")) == 2
    driver = driver.killed()
    once(driver, b"k")
    assert len(driver.bodies("t")) == 2
    driver.clock.step_wall(10_000)
    once(driver, b"k")
    assert len(driver.bodies("t")) == 3, "before the next check has forgotten it"


def test_the_oldest_of_too_many_keys_are_forgotten() -> None:
    driver = ready(once_keys_max=100)
    for number in range(150):
        once(driver, b"%d" % number)
    driver.clock.run_for(3_000)
    assert driver.store.figures()["once_keys"] == 100
    assert driver.store.figures()["once_evicted_total"] == 50
    once(driver, b"149")
    assert len(driver.bodies("t")) == 150
    once(driver, b"0")
    assert len(driver.bodies("t")) == 151
    driver = driver.killed()
    driver.clock.run_for(3_000)
    assert driver.store.figures()["once_keys"] == 100


def test_a_turn_forgets_few_keys() -> None:
    driver = ready(once_window_ms=60_000)
    for number in range(5_000):
        driver.store.log.append_once(OnceKey("s", b"%d" % number), [Message("t", b"x", queue_id=0)], None)
    driver.clock.run_for(59_000)
    left = 5_000
    for _ in range(4_000):
        driver.clock.run_for(1)
        now = int(driver.store.figures()["once_keys"])
        assert left - now <= 2_048
        left = now
    assert left == 0


def test_a_topic_made_anew_takes_its_keys_anew() -> None:
    driver = ready()
    once(driver, b"k")
    driver.call(driver.store.metadata.delete_topic, "t")
    driver.topic("t")
    once(driver, b"k")
    assert driver.bodies("t") == [b"x"]
    once(driver, b"k")
    assert driver.bodies("t") == [b"x"]


def test_a_delayed_message_is_delivered_once_and_has_one_handle() -> None:
    driver = ready()
    due = properties.entry(properties.TIMER_DELIVER_MS, str(driver.clock.wall_ms() + 5_000))
    first = facts(once(driver, b"k", stored=due))
    assert first[0][5], "a recall handle"
    assert facts(once(driver, b"k", stored=due)) == first
    driver.clock.run_for(10_000)
    assert driver.bodies("t") == [b"x"]


def test_a_key_and_its_message_are_one_commit() -> None:
    """Power is lost with every subset of what was not synced: never the message without the key, nor the key without it."""
    driver = Driver(StoreSettings(durability=Durability.PAGE))
    driver.topic("t", Durability.PAGE)
    for number in range(10):
        once(driver, b"%d" % number, b"%d" % number)
    for seed in range(20):
        chance = random.Random(seed)
        after = driver.powered_off(lambda _, synced, size, chance=chance: chance.randrange(synced, size + 1))  # type: ignore[misc]
        kept = after.bodies("t")
        for number in range(10):
            once(after, b"%d" % number, b"%d" % number)
        assert after.bodies("t") == kept + [b"%d" % number for number in range(10) if b"%d" % number not in kept]
