"""Calls are counted in C as in Python."""

from __future__ import annotations

from tests.neighbours.calls import CallCounter, counter


def work() -> None:
    for number in range(100):
        len(str(number))
    sorted(range(10), key=lambda number: -number)


def counted(way: CallCounter) -> int:
    way.calls.value = 0
    way.begin()
    work()
    way.end()
    return way.calls.value


def test_both_ways_count_alike() -> None:
    calls, other = counted(CallCounter()), counted(counter())
    assert calls > 100
    assert abs(calls - other) <= 2, "the calls that begin and end it are counted here and not there"
