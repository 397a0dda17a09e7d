"""A Receive has a budget of bytes, beside its number of messages."""

from __future__ import annotations

import pytest

from domain import limits
from domain.filter.tag import parse
from domain.message import property as properties
from tests.store.driver import Driver

LARGE = 1024 * 1024


@pytest.fixture
def driver() -> Driver:
    return Driver.with_topics("t")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("tag", ["", "a"])
def test_large_messages_are_leased_within_a_budget(driver: Driver, ordered: bool, tag: str) -> None:
    """32 messages of 1 MiB would be 32 MiB of answer, and 43 MiB in JSON."""
    facts = properties.encode([("TAGS", "a"), ("__SHARDINGKEY", "k")] if ordered else [("TAGS", "a")])
    for _ in range(12):
        driver.send("t", bytes(LARGE), properties=facts)
    seen: list[int] = []
    for _ in range(3):
        found = driver.lease("g", "t", 32, 10_000, tags=parse(tag) if tag else None, ordered=ordered).messages
        assert 1 <= len(found) <= limits.RECEIVE_BYTES_MAX // LARGE
        seen += [leased.receipt.queue_offset for leased in found]
        if ordered:
            driver.settle("g", "t", *found)
    assert seen == list(range(12))


def test_redeliveries_count(driver: Driver) -> None:
    for _ in range(8):
        driver.send("t", bytes(LARGE))
    for _ in range(3):
        driver.lease("g", "t", 32, 1_000)
    driver.clock.run_for(2_000)
    again: list[int] = []
    for _ in range(3):
        found = driver.lease("g", "t", 32, 10_000).messages
        assert len(found) <= limits.RECEIVE_BYTES_MAX // LARGE
        again += [leased.receipt.queue_offset for leased in found]
    assert again == list(range(8))


def test_one_message_is_always_leased(driver: Driver) -> None:
    for _ in range(2):
        driver.send("t", bytes(limits.BODY_BYTES_MAX))
    assert [len(driver.lease("g", "t", 32).messages) for _ in range(3)] == [1, 1, 0]
