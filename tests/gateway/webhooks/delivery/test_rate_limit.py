"""The rate of a sink."""

from __future__ import annotations

from domain.limits import SECOND_NS
from gateway.webhooks.delivery.rate_limit import MINUTE_NS, SinkRateLimit


def test_no_bound() -> None:
    pace = SinkRateLimit(0)
    for _ in range(1_000):
        pace.began(5)
    assert (pace.due(5), pace.room(5, 64)) == (5, 64)


def test_a_second_of_deliveries_at_once_then_one_after_the_other() -> None:
    pace = SinkRateLimit(120)
    now = MINUTE_NS
    assert pace.room(now, 64) == 3, "two of the second that has passed, and one now"
    for _ in range(3):
        pace.began(now)
    assert pace.due(now) == now + SECOND_NS // 2
    assert pace.room(pace.due(now), 64) == 1
    assert pace.room(now + 10 * SECOND_NS, 64) == 3, "time without deliveries is not saved up"


def test_the_lower_rate_holds() -> None:
    for own, granted, wanted in ((0, 0, 0), (10, 0, 10), (0, 20, 20), (10, 20, 10), (30, 20, 20)):
        pace = SinkRateLimit(own)
        pace.bound(granted, own)
        assert pace.per_minute == wanted
