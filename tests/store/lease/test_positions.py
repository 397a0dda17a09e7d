"""Positions of groups: the level that a commit over several topics waits for."""

from __future__ import annotations

import pytest

from domain.errors import Failure
from domain.topic import Durability
from tests.store.driver import Driver


@pytest.mark.parametrize("names", [("flushed", "page"), ("page", "flushed")])
@pytest.mark.parametrize("pulls", [False, True])
def test_a_commit_over_several_topics_waits_for_the_strictest_level(names: tuple[str, str], pulls: bool) -> None:
    driver = Driver()
    driver.topic("flushed")
    driver.topic("page", Durability.PAGE)
    for name in names:
        driver.send(name, b"a", b"b")
    driver.lease("g", "flushed", limit=1)  # a member's report about this topic is a report about a shared queue
    driver.clock.run_for(1_000)
    driver.disk.hold_syncs = True
    answers: list[None | Failure] = []
    commit = driver.store.pulls.report if pulls else driver.store.positions.commit
    commit("g", [(name, 0, 1) for name in names], answers.append)
    driver.clock.run_for(10)
    assert answers == []
    driver.disk.release()
    driver.clock.run_for(10)
    assert answers == [None]


def test_a_commit_over_page_topics_waits_for_the_write_only() -> None:
    driver = Driver()
    driver.topic("page", Durability.PAGE)
    driver.send("page", b"a")
    driver.clock.run_for(1_000)
    driver.disk.hold_syncs = True
    answers: list[None | Failure] = []
    driver.store.positions.commit("g", [("page", 0, 1)], answers.append)
    driver.clock.run_turn()
    assert answers == [None]
