"""A topic that is deleted and made again within one batch of the log: each message belongs to the topic it was sent to."""

from __future__ import annotations

from typing import Any

import pytest

from domain.errors import Failure
from domain.message.message import Message
from domain.topic.topic import Topic
from tests.store.driver import Driver


def count(driver: Driver) -> int:
    return sum(1 for _ in driver.store.parts.segments.walk(0, False))


def in_one_turn(driver: Driver, *steps: str | Topic | bytes) -> None:
    """Delete a topic (its name), make one, or append a message to "t" (its body), all before the log is written."""
    told: list[Any] = []
    batches = count(driver)
    for step in steps:
        if isinstance(step, Topic):
            driver.store.metadata.put_topic(step, told.append)
        elif isinstance(step, str):
            driver.store.metadata.delete_topic(step, told.append)
        else:
            driver.store.log.append([Message("t", step, queue_id=0)], told.append, ())
    driver.clock.run_for(1_000)
    assert len(told) == len(steps)
    assert not [each for each in told if isinstance(each, Failure)]
    assert count(driver) == batches + 1


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_message_behind_a_deletion_is_there_after_a_crash(checkpointed: bool) -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"of the first topic")
    in_one_turn(driver, b"of the first topic, too", "t", Topic("t", 1, 1), b"of the second")
    assert driver.bodies("t") == [b"of the second"]
    if checkpointed:
        driver.store.parts.checkpointer.begin(True)
        driver.clock.run_for(2_000)
    driver = driver.killed()
    assert driver.bodies("t") == [b"of the second"]
    assert driver.bounds("t") == (0, 1)
    assert driver.killed().bodies("t") == [b"of the second"]


def test_a_topic_that_is_deleted_twice_keeps_what_came_last() -> None:
    driver = Driver.with_topics("t")
    in_one_turn(driver, b"1", "t", Topic("t", 1, 1), b"2", "t", Topic("t", 1, 1), b"3", b"4")
    assert driver.killed().bodies("t") == [b"3", b"4"]


def test_a_topic_that_stays_deleted_has_no_messages() -> None:
    driver = Driver.with_topics("t")
    in_one_turn(driver, b"1", "t", Topic("t", 1, 1), b"2", "t")
    driver = driver.killed()
    assert driver.store.metadata.topic("t") is None
    driver.topic("t")
    assert driver.bodies("t") == []
