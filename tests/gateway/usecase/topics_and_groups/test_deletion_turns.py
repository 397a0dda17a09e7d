"""A topic is deleted with the retry topics that groups have for it: a turn looks at a share of the groups."""

from __future__ import annotations

import pytest

from domain import address
from domain.admin.group import PutGroup
from domain.admin.topic import DeleteTopic, PutTopic
from domain.event import Done
from domain.topic.topic import Group, Topic
from domain.turn import QUESTIONS_NS
from gateway.runtime.compiled import in_use
from gateway.usecase.waiting.long_questions import STEP_ITEMS, STEP_NS
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.turns import most_in_a_turn

GROUPS = 2_000


@pytest.mark.skipif(bool(in_use()), reason="an attribute of a compiled object cannot be replaced")
def test_a_turn_looks_at_a_share_of_the_groups(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = EventRecorder()
    bench.ask(PutTopic(1, Topic("T", 1, 1)))
    for number in range(GROUPS):
        bench.handler.handle(recorder.connection, PutGroup(1, Group(f"g{number}")))
    bench.clock.run_for(2_000)
    retries = [address.pop_retry_topic(group, "T") for group in ("g7", "g1999")]
    for name in retries:
        bench.handler.topics.ensure(name, lambda _: None)
    bench.clock.run_for(100)
    assert all(bench.store.metadata.topic(name) is not None for name in retries)
    recorder.take()
    looked: list[str] = []
    find = bench.handler.topics.find

    def counted(name: str) -> Topic | None:
        looked.append(name)
        return find(name)

    monkeypatch.setattr(bench.handler.topics, "find", counted)
    bench.handler.handle(recorder.connection, DeleteTopic(1, "T"))
    most = 2 * STEP_ITEMS * (QUESTIONS_NS // STEP_NS)
    assert 0 < len(looked) <= most
    assert all(bench.store.metadata.topic(name) is not None for name in ("T", *retries)), "none is deleted before all are known"
    assert most_in_a_turn(bench.clock, lambda: len(looked), 2 * GROUPS) <= most
    bench.clock.run_for(100)
    assert recorder.take() == [Done(1)]
    assert not [name for name in ("T", *retries) if bench.store.metadata.topic(name) is not None]
