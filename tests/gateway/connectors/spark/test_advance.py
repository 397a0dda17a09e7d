"""The end of the next batch: nothing is skipped into, nothing is planned twice, and no batch is empty."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.answer import Edges, Epoch, QueueRoute
from gateway.connectors.spark.advance import advance
from gateway.connectors.spark.failure import OffsetAheadError, OffsetExpiredError, TopicRemadeError

A, B, C = QueueRoute("b", "t", 0), QueueRoute("b", "t", 1), QueueRoute("b", "u", 0)
OLD: dict[QueueRoute, Epoch] = {A: 1, B: 1, C: 9}


def test_a_batch_ends_at_the_ends_of_the_queues() -> None:
    step = advance({A: 3, B: 5}, OLD, {A: Edges(0, 10, 1), B: Edges(0, 5, 1)}, None, 0)
    assert (step.end, step.fresh, step.losses) == ({A: 10, B: 5}, {}, [])


def test_a_new_queue_starts_at_its_first_offset_and_the_step_says_so() -> None:
    step = advance({A: 3}, OLD, {A: Edges(0, 3, 1), B: Edges(2, 6, 1)}, None, 1)
    assert (step.end, step.fresh) == ({A: 3, B: 3}, {B: 2})


def test_the_start_of_a_new_queue_is_said_before_its_first_message_can_expire() -> None:
    step = advance({A: 3}, OLD, {A: Edges(0, 3, 1), B: Edges(0, 0, 1)}, None, 0)
    assert (step.end, step.fresh) == ({A: 3, B: 0}, {B: 0})


def test_a_topic_made_anew_is_noticed_although_it_is_longer_than_the_position() -> None:
    step = advance({A: 3, B: 5}, OLD, {A: Edges(0, 50, 2), B: Edges(0, 0, 2)}, None, 0)
    assert [type(one) for one in step.losses] == [TopicRemadeError, TopicRemadeError]
    assert (step.end, step.fresh, step.epochs) == ({A: 50, B: 0}, {A: 0, B: 0}, {A: 2, B: 2})


def test_all_queues_of_a_topic_made_anew_start_again_under_a_limit_too() -> None:
    step = advance({A: 3, B: 5, C: 7}, OLD, {A: Edges(0, 50, 2), C: Edges(0, 7, 9)}, None, 10)
    assert (step.end, step.fresh) == ({A: 10, C: 7}, {A: 0})


def test_a_topic_made_anew_without_messages_plans_nothing() -> None:
    step = advance({A: 3, B: 5}, OLD, {A: Edges(0, 0, 2), B: Edges(0, 0, 2)}, None, 0)
    assert (step.end, step.fresh) == ({A: 3, B: 5}, {})


def test_expired_messages_are_passed_over_before_the_limit_counts() -> None:
    step = advance({A: 3}, OLD, {A: Edges(100, 120, 1)}, None, 5)
    assert [type(one) for one in step.losses] == [OffsetExpiredError]
    assert (step.end, step.fresh) == ({A: 105}, {A: 100})


def test_a_position_behind_the_end_starts_again() -> None:
    step = advance({A: 30}, OLD, {A: Edges(0, 4, 1)}, None, 0)
    assert [type(one) for one in step.losses] == [OffsetAheadError]
    assert (step.end, step.fresh) == ({A: 4}, {A: 0})


def test_the_target_of_a_run_is_an_upper_bound() -> None:
    target = {A: Edges(0, 20, 1), B: Edges(0, 20, 1)}
    step = advance({A: 3, B: 5}, OLD, {A: Edges(0, 50, 1), B: Edges(0, 10, 1), C: Edges(0, 5, 9)}, target, 0)
    assert (step.end, step.fresh) == ({A: 20, B: 10}, {})
    gone = advance({A: 3, B: 5}, OLD, {B: Edges(0, 10, 1)}, target, 0)
    assert gone.end == {A: 3, B: 10}


def test_a_topic_made_anew_during_a_run_is_left_to_the_next_run() -> None:
    step = advance({A: 3}, OLD, {A: Edges(0, 50, 2)}, {A: Edges(0, 20, 1)}, 0)
    assert (step.end, step.fresh) == ({A: 3}, {})


def test_epochs_of_brokers_without_epochs_are_the_first_message() -> None:
    known: dict[QueueRoute, Epoch] = {A: (2, 700)}
    for now, losses in (((2, 700), 0), ((5, 900), 0), ((2, -1), 0), ((2, 800), 1), ((0, 900), 1)):
        assert len(advance({A: 6}, known, {A: Edges(now[0], 9, now)}, None, 0).losses) == losses


def test_a_position_of_version_1_takes_the_epoch_that_it_finds() -> None:
    step = advance({A: 3}, {}, {A: Edges(0, 10, 2)}, None, 0)
    assert (step.end, step.epochs, step.losses) == ({A: 10}, {A: 2}, [])


QUEUES = [QueueRoute("b", topic, number) for topic in ("t", "u") for number in range(3)]
POSITIONS = st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 40))
ENDS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)


@settings(max_examples=200)
@given(
    POSITIONS,
    st.dictionaries(st.sampled_from(QUEUES), ENDS),
    st.dictionaries(st.sampled_from(["t", "u"]), st.integers(1, 2)),
    st.none() | st.dictionaries(st.sampled_from(QUEUES), ENDS),
    st.integers(0, 60),
)
def test_every_step_is_inside_what_is_stored_and_moves_or_is_none(
    begin: dict[QueueRoute, int],
    ends: dict[QueueRoute, list[int]],
    remade: dict[str, int],
    target: dict[QueueRoute, list[int]] | None,
    rows: int,
) -> None:
    edges = {queue: Edges(low, high, remade.get(queue.topic, 1)) for queue, (low, high) in ends.items()}
    goal = None
    if target is not None:
        goal = {queue: Edges(low, high, remade.get(queue.topic, 1)) for queue, (low, high) in target.items()}
    step = advance(begin, dict.fromkeys(begin, 1), edges, goal, rows)
    start = begin | step.fresh
    read = 0
    for queue, end in step.end.items():
        if end != start[queue]:
            low, high, _ = edges[queue]
            assert low <= start[queue] < end <= high
            assert goal is None or end <= max(goal[queue].after, start[queue])
            read += end - start[queue]
    assert not rows or read <= max(rows, len(step.end))
    if step.end != begin:
        assert read or any(queue not in begin for queue in step.end)
    assert step.epochs.keys() >= step.end.keys() - begin.keys()
