"""A space of the state that is kept in memory."""

from __future__ import annotations

from domain.errors import Failure
from domain.store.store_ports import StateChange
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from tests.gateway.usecase.bench import Bench


def test_what_is_stored_is_there_at_once_and_later_changes_before_they_are_answered(bench: Bench) -> None:
    bench.store.state.put([StateChange("s", b"a", b"1"), StateChange("other", b"b", b"2")], None)
    bench.clock.run_for(20)
    space = FollowedSpace(bench.store.state, "s", int)
    assert space.values == {b"a": 1}
    seen: list[tuple[None | Failure, dict[bytes, int]]] = []
    space.put({b"a": None, b"c": b"3"}, lambda result: seen.append((result, dict(space.values))))
    assert space.values == {b"a": 1}
    bench.clock.run_for(20)
    assert seen == [(None, {b"c": 3})]


def test_readers_that_keep_the_dictionary_see_the_changes(bench: Bench) -> None:
    space = FollowedSpace(bench.store.state, "s", bytes)
    values = space.values
    space.put({b"a": b"1"}, None)
    bench.clock.run_for(20)
    assert values == {b"a": b"1"}
