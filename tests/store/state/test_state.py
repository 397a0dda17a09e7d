"""Ordered keys, what old segments hold, the codec of changes, topics and groups as state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.delivery.retry import RetryPolicy
from domain.store.store_ports import StateChange
from domain.topic.topic import Durability, Group, Topic
from store.settings import StoreSettings
from store.state import change, metadata
from store.state.sorted_set import LIST_ITEMS, SortedSet
from store.state.view import StateView
from tests.store.driver import Driver
from tests.stored_state import pairs

CHANGES = st.lists(
    st.builds(StateChange, st.sampled_from(("a", "session")), st.binary(max_size=40), st.none() | st.binary(max_size=200)),
    max_size=20,
)


@settings(max_examples=100, deadline=None)
@given(CHANGES)
def test_changes_come_back_as_they_were(changes: list[StateChange]) -> None:
    body = change.encode(changes)
    assert list(change.decode(body)) == changes
    assert len(body) <= change.size(changes)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3_000), max_size=3_000), st.integers(0, 3_000))
def test_keys_stay_in_order(numbers: list[int], since: int) -> None:
    keys = SortedSet[bytes]()
    naive: set[bytes] = set()
    for number in numbers:
        key = b"%d" % number
        if key in naive:
            keys.remove(key)
            naive.remove(key)
        else:
            keys.add(key)
            naive.add(key)
    start = b"%d" % since
    assert keys.all() == sorted(naive)
    assert list(keys.since(start)) == sorted(key for key in naive if key >= start)
    found: list[bytes] = []
    while step := keys.after(found[-1] if found else b""):
        assert len(step) <= 2 * LIST_ITEMS
        found += step
    assert found == sorted(naive)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_the_view_tells_what_an_old_segment_still_holds(steps: list[tuple[int, bool]]) -> None:
    view = StateView()
    naive: dict[bytes, int] = {}
    base = 0
    for thing, forget in steps:
        key = b"%d" % thing
        if forget:
            view.apply(StateChange("a", key, None), base)
            naive.pop(key, None)
        else:
            base += thing % 2
            view.apply(StateChange("a", key, b"v"), base)
            naive[key] = base
    found = [item.key for some in view.anchored_below(base) for item in some]
    assert found == sorted(key for key, at in naive.items() if at < base)
    assert sorted((item.key, at) for some in view.snapshot() for at, item, _ in some or ()) == sorted(naive.items())


@settings(max_examples=50, deadline=None)
@given(CHANGES, st.booleans())
def test_the_view_is_the_last_value_of_each_key_before_and_after_a_restart(changes: list[StateChange], clean: bool) -> None:
    driver = Driver(StoreSettings(checkpoint_bytes=500, segment_bytes=2_000))
    naive: dict[tuple[str, bytes], bytes] = {}
    for item in changes:
        driver.store.state.put([item], None)
        driver.clock.run_for(300)
        if item.value is None:
            naive.pop((item.space, item.key), None)
        else:
            naive[item.space, item.key] = item.value
    driver.clock.run_for(1_000)
    for after in (driver, driver.killed(), driver.restarted() if clean else driver.powered_off()):
        for space in ("a", "session"):
            expected = sorted((key, value) for (where, key), value in naive.items() if where == space)
            assert list(pairs(after.store.state, space, b"")) == expected


def test_topics_and_groups_come_back_as_they_were() -> None:
    topic = Topic("t", 3, 4, 6, "FIFO", Durability.PAGE, 5, 6, True, 7, {"a": "b"}, 8)
    assert metadata.decode_topic("t", metadata.encode_topic(topic)) == topic
    assert metadata.decode_topic("t", metadata.encode_topic(Topic("t"))) == Topic("t")
    group = Group("g", True, False, True, False, 3, 2, {"x": "y"}, 9)
    assert metadata.decode_group(metadata.encode_group(group)) == group
    group = Group("g", retry=RetryPolicy("EXPONENTIAL", (1, 2), 3, 4, 5))
    assert metadata.decode_group(metadata.encode_group(group)) == group


def test_the_stores_own_spaces_cannot_be_written_from_outside() -> None:
    with pytest.raises(ValueError, match="belong to the store"):
        Driver().store.state.put([StateChange("@topic", b"t", b"{}")], None)


def test_two_drivers_with_the_same_calls_have_the_same_disk() -> None:
    disks = []
    for _ in range(2):
        driver = Driver()
        for name in ("b", "a", "c"):
            driver.topic(name)
            driver.send(name, b"x", b"y")
            driver.lease("g", name)
        driver.clock.run_for(100_000)
        disks.append({name: bytes(content.data) for name, content in driver.disk.files.items()})
    assert disks[0] == disks[1]


def test_the_size_of_a_space() -> None:
    view = StateView()
    changes = (("a", b"k", b"1"), ("a", b"kk", b"22"), ("b", b"k", b"333"), ("a", b"k", b"4444"), ("a", b"kk", None))
    for space, key, value in changes:
        view.apply(StateChange(space, key, value), 0)
    assert (view.size("a"), view.size("b"), view.size("c"), view.bytes) == ((1, 5), (1, 4), (0, 0), 9)
