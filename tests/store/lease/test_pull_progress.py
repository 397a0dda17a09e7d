"""Pull progress: who pulls from which queue, how far, and how that becomes leases when a receiver joins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain import limits
from store.lease import pull_progress
from store.lease.pull_progress import PULL_LEASE_MS, Place, PullProgress, PullProgressTable
from store.lease.table import LeaseTable

A: Place = ("g", "t", 0)
B: Place = ("g", "t", 1)
OTHER_GROUP: Place = ("h", "t", 0)


def test_what_the_member_was_given_becomes_its_leases() -> None:
    table = LeaseTable("g", "t", 0, 5)
    PullProgress("m", 5, 9).become_leases(table, 100, 1_000)
    assert list(table.leases) == [5, 6, 7, 8]
    assert all(lease.pulled and lease.end_ms == 1_000 + PULL_LEASE_MS for lease in table.leases.values())
    assert (table.head, table.puller, table.renewed_ms) == (9, "m", 1_000)


def test_offsets_that_the_queue_does_not_have_are_not_leased() -> None:
    table = LeaseTable("g", "t", 0, 5)
    PullProgress("m", 5, 9).become_leases(table, 7, 1_000)
    assert list(table.leases) == [5, 6]


def test_a_queue_has_at_most_as_many_leases_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASES_PER_QUEUE_MAX", 3)
    table = LeaseTable("g", "t", 0, 5)
    PullProgress("m", 5, 50).become_leases(table, 100, 1_000)
    assert list(table.leases) == [5, 6, 7]


def test_offsets_that_are_leased_already_stay_as_they_are() -> None:
    table = LeaseTable("g", "t", 0, 5)
    table.lease(5, 900, 950)
    PullProgress("m", 5, 7).become_leases(table, 100, 800)
    assert [(lease.pop_ms, lease.pulled) for lease in table.leases.values()] == [(900, False), (901, True)]


def test_the_queues_of_a_member_are_those_of_the_group_that_is_asked() -> None:
    table = PullProgressTable()
    for place in (B, A, OTHER_GROUP, A):
        table.add_queue("m", place)
    assert table.queues_of("g", "m") == [B, A]
    assert table.queues_of("h", "m") == [OTHER_GROUP]
    assert table.queues_of("g", "n") == []


def test_beyond_the_bound_the_oldest_progress_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_progress, "PULL_PROGRESS_MAX", 2)
    table = PullProgressTable()
    for queue_id in range(3):
        table.put(("g", "t", queue_id), PullProgress("m", queue_id, queue_id + 1))
    assert [table.get(("g", "t", queue_id)) is None for queue_id in range(3)] == [True, False, False]


@given(
    st.lists(
        st.tuples(st.sampled_from(("put", "add", "remove", "drop")), st.sampled_from("mn"), st.integers(0, 2)), max_size=40
    )
)
def test_members_and_progress_agree_with_a_naive_table(steps: list[tuple[str, str, int]]) -> None:
    table = PullProgressTable()
    progress: dict[Place, str] = {}
    pulls: set[tuple[str, Place]] = set()
    for verb, member, queue_id in steps:
        place = ("g", "t", queue_id)
        if verb == "put":
            table.put(place, PullProgress(member, 0, 1))
            progress[place] = member
            pulls.add((member, place))
        elif verb == "add":
            table.add_queue(member, place)
            pulls.add((member, place))
        elif verb == "remove":
            table.remove_queue(member, place)
            pulls.discard((member, place))
            if progress.get(place) == member:
                del progress[place]
        else:
            table.drop(place)
            progress.pop(place, None)
    for member in "mn":
        assert set(table.queues_of("g", member)) == {place for name, place in pulls if name == member}
    for queue_id in range(3):
        found = table.get(("g", "t", queue_id))
        assert (None if found is None else found.member) == progress.get(("g", "t", queue_id))
