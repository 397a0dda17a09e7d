"""Token buckets: the average rate holds, bursts are allowed, and memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.limits import SECOND_NS
from gateway.guard.bucket import Bucket, Buckets, RateLimit


def test_burst_is_there_at_once_and_then_the_rate_counts() -> None:
    bucket = Bucket(RateLimit(10, 2))
    for _ in range(20):
        assert bucket.wait_ns(0) == 0
        bucket.take(1, 0)
    assert 0 < bucket.wait_ns(0) <= SECOND_NS // 10
    assert bucket.wait_ns(SECOND_NS // 10) == 0


def test_debt_of_a_batch_is_waited_for() -> None:
    bucket = Bucket(RateLimit(10, 1))
    bucket.take(1_000, 0)
    assert bucket.wait_ns(0) == 99 * SECOND_NS + SECOND_NS // 10
    assert bucket.wait_ns(99 * SECOND_NS) > 0
    assert bucket.wait_ns(99 * SECOND_NS + SECOND_NS // 10) == 0


def test_one_a_second_is_one_a_second() -> None:
    bucket = Bucket(RateLimit(1, 1))
    bucket.take(1, 0)
    assert bucket.wait_ns(1) == SECOND_NS - 1
    assert bucket.wait_ns(SECOND_NS) == 0


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2 * SECOND_NS)), max_size=60), st.integers(1, 40))
def test_what_passes_is_never_more_than_rate_burst_and_one_batch(steps: list[tuple[int, int]], per_s: int) -> None:
    bucket = Bucket(RateLimit(per_s, 1))
    now = passed = 0
    for units, pause in steps:
        now += pause
        if bucket.wait_ns(now) == 0:
            bucket.take(units, now)
            passed += units
        assert passed <= per_s * (1 + now / SECOND_NS) + 50 + 1


def test_oldest_key_is_forgotten_first() -> None:
    buckets: Buckets[str] = Buckets(RateLimit(1, 1), 2)
    buckets.of("a").take(5, 0)
    buckets.of("b").take(5, 0)
    assert buckets.of("a").wait_ns(0) > 0
    buckets.of("c")
    assert len(buckets) == 2
    assert buckets.of("a").wait_ns(0) > 0
    assert buckets.of("b").wait_ns(0) == 0
