"""Row limits and tasks: no row is lost, none is in two tasks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.answer import QueueRoute
from gateway.connectors.spark.plan import SMALL_ROWS, Range, divide, limit_rows
from tests.gateway.connectors.spark.lines import lines_of

QUEUES = [QueueRoute("b", "t", number) for number in range(8)]
LAGS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 10_000))
RANGES = st.lists(
    st.tuples(st.sampled_from(QUEUES), st.integers(0, 9_000), st.integers(0, 9_000)), unique_by=lambda one: one[0]
)


@settings(max_examples=100)
@given(LAGS, st.integers(1, 20_000))
def test_every_queue_with_lag_gets_rows_and_none_more_than_its_lag(lags: dict[QueueRoute, int], most: int) -> None:
    admitted = limit_rows(lags, most)
    lagging = {queue: lag for queue, lag in lags.items() if lag > 0}
    assert admitted.keys() == lagging.keys()
    assert all(1 <= rows <= lagging[queue] for queue, rows in admitted.items())
    assert sum(admitted.values()) == max(min(most, sum(lagging.values())), min(len(lagging), sum(lagging.values())))


def test_rows_that_a_short_queue_does_not_need_go_to_the_long_ones() -> None:
    assert list(limit_rows({QUEUES[0]: 5, QUEUES[1]: 1000, QUEUES[2]: 1000}, 105).values()) == [5, 50, 50]


@settings(max_examples=100)
@given(RANGES, st.integers(1, 5_000), st.integers(1, 40))
def test_tasks_cover_every_row_once_and_in_order(given_: list[tuple[QueueRoute, int, int]], rows: int, least: int) -> None:
    ranges = [Range(queue, min(a, b), max(a, b)) for queue, a, b in given_]
    tasks = divide(ranges, rows, least)
    for one in ranges:
        pieces = [(piece.start, piece.end) for task in tasks for piece in task if piece.queue == one.queue]
        at = one.start
        for start, end in pieces:
            assert start == at < end
            at = end
        assert at == one.end
    assert all(0 < sum(piece.end - piece.start for piece in task) <= max(rows, 1) for task in tasks)
    total = sum(one.end - one.start for one in ranges)
    assert len(tasks) >= min(least, 1 if total else 0)


def test_small_queues_share_a_task_and_large_ones_are_split() -> None:
    small = [Range(queue, 0, SMALL_ROWS // 4) for queue in QUEUES]
    assert [len(task) for task in divide(small, 250_000, 1)] == [4, 4]
    assert [(one.start, one.end) for [one] in divide([Range(QUEUES[0], 0, 1000)], 400, 1)] == [
        (0, 333),
        (333, 666),
        (666, 1000),
    ]
    assert len(divide([Range(QUEUES[0], 0, 1000)], 250_000, 4)) == 4


def work(count: int) -> int:
    """The number of lines executed to plan `count` queues."""
    queues = [QueueRoute("broker-a", "orders", number) for number in range(count)]

    def plan() -> list[list[Range]]:
        admitted = limit_rows(dict.fromkeys(queues, 1_000), count * 500)
        return divide([Range(queue, 0, rows) for queue, rows in admitted.items()], 250_000, 1)

    lines, tasks = lines_of(plan)
    assert len(tasks) == count // 4
    return lines


def test_the_work_of_planning_grows_with_the_queues_and_no_faster() -> None:
    few, many = work(1_000), work(10_000)
    assert few <= many <= 11 * few
    assert many <= 50 * 10_000
