"""Groups in pages: what a page costs grows with its own groups, not with all there are."""

from __future__ import annotations

import pytest

from domain.admin.group import GroupList, ListGroups, PutGroup, SetReadable
from domain.admin.topic import PutTopic
from domain.topic.topic import Group, Topic
from gateway.runtime.compiled import in_use
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.instructions import instructions


def furnish(bench: Bench, first: int, end: int) -> None:
    """Groups by number, none of which may read T."""
    bench.ask(PutTopic(1, Topic("T", 1, 1)))
    recorder = EventRecorder()
    for number in range(first, end):
        bench.handler.handle(recorder.connection, PutGroup(1, Group(f"g{number:05}")))
        bench.clock.run_for(1)
    bench.clock.run_for(100)
    for number in range(first, end):
        bench.handler.handle(recorder.connection, SetReadable(1, f"g{number:05}", "T", False))
    bench.clock.run_for(1_000)


def page(bench: Bench, after: str, limit: int) -> tuple[list[str], set[str]]:
    """(names of the groups, those of them that may not read T)."""
    found = only(GroupList, bench.ask(ListGroups(1, after, limit), ms=200))
    assert all(topics == ["T"] for topics in found.forbidden.values())
    return [each.name for each in found.groups], set(found.forbidden)


def test_a_page_has_its_groups_and_what_they_may_not_read(bench: Bench) -> None:
    furnish(bench, 0, 200)
    names = [f"g{number:05}" for number in range(200)]
    assert page(bench, "", 3) == (names[:3], set(names[:3]))
    assert page(bench, "g00010", 100) == (names[11:111], set(names[11:111]))
    assert page(bench, "g00197x", 5) == (names[198:], set(names[198:]))
    assert page(bench, "g00199", 5) == ([], set())
    assert page(bench, "", 0) == (names, set(names))


@pytest.mark.skipif(bool(in_use()), reason="instructions of compiled modules are not seen")
def test_a_page_costs_the_same_however_many_groups_there_are(bench: Bench) -> None:
    costs: list[int] = []
    for first, end in ((0, 200), (200, 1_600)):
        furnish(bench, first, end)
        recorder = EventRecorder()
        for after in ("", "g00050"):
            costs.append(instructions(lambda: bench.handler.handle(recorder.connection, ListGroups(1, after, 8))))  # noqa: B023
        assert [len(event.groups) for event in recorder.take() if isinstance(event, GroupList)] == [8, 8]
    assert max(costs) < min(costs) * 1.2, costs
