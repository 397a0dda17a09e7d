"""Ending a transaction needs the right to publish to the topic of its half message, whatever topic the command names."""

from __future__ import annotations

import pytest

from domain.errors import ErrorCode, Failure
from domain.event import Done
from domain.transaction import COMMIT, ROLLBACK, EndTransaction
from gateway.access.gate import Gate
from tests.gateway.access.test_gate import Scene
from tests.gateway.usecase.bench import Bench, bench
from tests.gateway.usecase.publish.test_transaction import prepare, stage

__all__ = ["bench", "stage"]


@pytest.fixture
def scene(stage: Bench) -> Scene:
    """alice may publish to topics that begin with t, bob to none; one half message waits in t."""
    found = Scene()
    found.gate = Gate(found.access, found.sink, stage.store.transactions)
    prepare(stage, "one")
    return found


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
def test_only_who_may_send_may_decide(scene: Scene, outcome: str) -> None:
    assert scene.refusal("bob", EndTransaction(1, "pg", "one", outcome)) is ErrorCode.NOT_ALLOWED
    by_offset = EndTransaction(1, "whatever", "another", outcome, offset=0)
    assert scene.refusal("bob", by_offset) is ErrorCode.NOT_ALLOWED
    assert scene.ask("alice", EndTransaction(2, "pg", "one", outcome)) is None
    assert scene.ask("root", EndTransaction(3, "pg", "one", outcome)) is None


def test_what_is_not_open_is_nobody_s(scene: Scene, stage: Bench) -> None:
    assert scene.ask("bob", EndTransaction(1, "pg", "nothing", COMMIT)) is None
    assert stage.ask(EndTransaction(5, "pg", "one", COMMIT)) == [Done(5)]
    topics: list[str | Failure] = []
    stage.store.transactions.topic("pg", "one", -1, topics.append)
    assert topics == [""]
    assert scene.ask("bob", EndTransaction(1, "pg", "one", COMMIT)) is None


def test_without_the_store_decisions_are_for_super_users(scene: Scene) -> None:
    scene.gate = Gate(scene.access, scene.sink)
    assert scene.refusal("alice", EndTransaction(1, "pg", "one", COMMIT)) is ErrorCode.NOT_ALLOWED
    assert scene.ask("root", EndTransaction(1, "pg", "one", COMMIT)) is None
