"""Callers that wait until the log is durable up to a position."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from domain.store.store_event import StoreEvent
from store.events import StoreEvents
from store.log.commit import SyncWaiters


def raised(event: StoreEvent) -> None:
    assert event.error is not None
    raise event.error


def test_a_caller_that_waits_again_while_it_is_called_is_not_lost() -> None:
    waiters, called = SyncWaiters(StoreEvents(raised)), list[int]()

    def again() -> None:
        called.append(1)
        waiters.add(200, partial(called.append, 2))

    waiters.add(100, again)
    assert waiters.synced(150)
    assert called == [1]
    assert not waiters.synced(200)
    assert called == [1, 2]


def test_nobody_is_called_after_the_log_broke() -> None:
    waiters, called = SyncWaiters(StoreEvents(raised)), list[int]()
    waiters.add(100, partial(called.append, 1))
    waiters.clear()
    assert not waiters.synced(1_000)
    assert called == []


@given(st.lists(st.integers(0, 50), max_size=20), st.lists(st.integers(0, 50), max_size=5).map(sorted))
def test_each_caller_is_called_once_in_the_order_of_arrival(wanted: list[int], syncs: list[int]) -> None:
    waiters, called = SyncWaiters(StoreEvents(raised)), list[int]()
    for index, position in enumerate(wanted):
        waiters.add(position, partial(called.append, index))
    done = -1
    for position in syncs:
        before = len(called)
        assert waiters.synced(position) == any(each > position for each in wanted)
        assert called[before:] == [index for index, each in enumerate(wanted) if done < each <= position]
        done = max(done, position)


def test_a_caller_that_raises_costs_the_others_nothing() -> None:
    told: list[StoreEvent] = []
    waiters, called = SyncWaiters(StoreEvents(told.append)), list[int]()

    def raises() -> None:
        raise OSError("of the caller")

    waiters.add(1, raises)
    waiters.add(1, partial(called.append, 2))
    waiters.synced(1)
    assert called == [2]
    assert [event.cause for event in told] == ["work that waits for a sync raised OSError: of the caller"]
