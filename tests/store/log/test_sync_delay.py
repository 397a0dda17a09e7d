"""The delay before a sync: when it waits for a wave of appends, how long, and when it stops waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.log.sync_delay import DELAY_NS_MAX, SYNCS_WITHOUT_DELAY, WAVE_MIN, SyncDelay


def after(answered: int, waiting: int = 0, took_ns: int = 400_000) -> SyncDelay:
    delay = SyncDelay()
    delay.synced(answered, waiting, took_ns)
    return delay


def test_the_first_sync_begins_at_once() -> None:
    assert SyncDelay().delay_ns(1) == 0


@pytest.mark.parametrize("wave", range(WAVE_MIN))
def test_few_senders_never_wait(wave: int) -> None:
    assert after(wave).delay_ns(0) == 0


def test_a_sync_waits_until_seven_eighths_of_the_wave_have_appended_again() -> None:
    delay = after(answered=10, waiting=6)
    assert [delay.delay_ns(waiting) > 0 for waiting in (0, 13, 14, 16)] == [True, True, False, False]


@given(st.integers(WAVE_MIN, 10_000), st.integers(0, 1 << 40))
def test_a_sync_waits_at_most_half_of_a_sync_and_at_most_a_millisecond(answered: int, took_ns: int) -> None:
    assert after(answered, took_ns=took_ns).delay_ns(1) == min(took_ns // 2, DELAY_NS_MAX)


def test_after_a_delay_in_vain_the_next_syncs_begin_at_once() -> None:
    delay = after(answered=16)
    delay.delay_in_vain()
    for _ in range(SYNCS_WITHOUT_DELAY):
        assert delay.delay_ns(1) == 0
        delay.synced(16, 0, 400_000)
    assert delay.delay_ns(1) == 0
    delay.synced(16, 0, 400_000)
    assert delay.delay_ns(1) == 200_000


def test_the_wave_is_that_of_the_latest_sync() -> None:
    delay = after(answered=100)
    delay.synced(2, 1, 400_000)
    assert delay.delay_ns(1) == 0
