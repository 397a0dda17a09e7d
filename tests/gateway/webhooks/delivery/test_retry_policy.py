"""What answers mean, delays, Retry-After, the breaker and signatures."""

from __future__ import annotations

import pytest

from domain.limits import SECOND_NS
from domain.subscription.courier import SinkAnswer, Trouble
from domain.subscription.subscription import RETRY_MS_MAX, Credential, Scheme, SinkRetry
from gateway.webhooks.delivery.breaker import CLOSED, FAILURES_MAX, HALF_OPEN, OPEN, OPEN_NS, OPEN_NS_MAX, Breaker
from gateway.webhooks.delivery.retry_policy import ASKED_MS_MAX, Verdict, delay_ms, retry_after_ms, verdict
from gateway.webhooks.delivery.signature import identity_fields
from gateway.webhooks.delivery.sink_consent import consent
from tests.simulation.kit.entropy import SeededEntropy


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (200, Verdict.DELIVERED), (202, Verdict.DELIVERED), (204, Verdict.DELIVERED), (301, Verdict.DEAD), (304, Verdict.DEAD),
        (400, Verdict.DEAD), (401, Verdict.DEAD), (404, Verdict.DEAD), (408, Verdict.RETRY), (410, Verdict.SUSPEND),
        (413, Verdict.DEAD), (425, Verdict.RETRY), (429, Verdict.RETRY), (500, Verdict.RETRY), (503, Verdict.RETRY),
        (999, Verdict.RETRY),
    ],
)  # fmt: skip
def test_statuses(status: int, found: Verdict) -> None:
    assert verdict(SinkAnswer(status)) is found


def test_no_answer() -> None:
    assert verdict(SinkAnswer(0, trouble=Trouble.TIMEOUT)) is Verdict.RETRY
    assert verdict(SinkAnswer(0, trouble=Trouble.REFUSED_ADDRESS)) is Verdict.SUSPEND


def test_delays_grow_with_jitter_and_end() -> None:
    entropy = SeededEntropy(1)
    policy = SinkRetry(delay_ms=1_000)
    for number in range(1, 200):
        found = [delay_ms(policy, number, entropy) for _ in range(20)]
        usual = min(1_000 << (number - 1), RETRY_MS_MAX)
        assert all(0.8 * usual - 1 <= each <= min(1.2 * usual, RETRY_MS_MAX) for each in found)
        assert len(set(found)) > 1
    assert 2_400 <= delay_ms(SinkRetry(linear=True, delay_ms=1_000), 3, entropy) <= 3_600


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("7", 7_000), ("0", 0), ("999999999", 999_999_999_000), ("9" * 400, ASKED_MS_MAX), ("-1", 0), ("1.5", 0), ("soon", 0),
        ("Thu, 01 Jan 1970 00:00:12 GMT", 2_000), ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("Thu, 01 Jan 2100 00:00:00 GMT", 4_102_444_790_000),
        ("٣", 0), ("", 0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str, ms: int) -> None:
    assert retry_after_ms([("retry-after", value)], 10_000) == ms


def test_the_breaker_opens_tries_once_and_closes() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_MAX - 1):
        assert not breaker.failed(0)
    assert breaker.room(0, 2, 8) == 6
    assert breaker.failed(0)
    assert breaker.state(0) == OPEN
    assert breaker.room(OPEN_NS - 1, 0, 8) == 0
    assert breaker.state(OPEN_NS) == HALF_OPEN
    assert breaker.room(OPEN_NS, 0, 8) == 1
    assert breaker.room(OPEN_NS, 1, 8) == 0
    assert breaker.failed(OPEN_NS), "the probe failed: open twice as long"
    assert breaker.until_ns == 3 * OPEN_NS
    assert breaker.succeeded()
    assert breaker.state(0) == CLOSED
    now = 0
    for _ in range(100):
        breaker.failed(now)
        now = max(now, breaker.until_ns)
    assert breaker.until_ns - now <= OPEN_NS_MAX
    assert breaker.failed(now, 400 * SECOND_NS)
    assert breaker.until_ns == now + 400 * SECOND_NS


def test_consent_is_the_field_and_not_the_status() -> None:
    assert consent(SinkAnswer(200), "me") == (False, 0)
    assert consent(SinkAnswer(200, [("webhook-allowed-origin", "other")]), "me") == (False, 0)
    assert consent(SinkAnswer(404, [("webhook-allowed-origin", "ME")]), "me") == (True, 0)
    assert consent(SinkAnswer(200, [("webhook-allowed-origin", "*"), ("webhook-allowed-rate", "120")]), "me") == (True, 120)
    assert consent(SinkAnswer(200, [("webhook-allowed-origin", "*"), ("webhook-allowed-rate", "*")]), "me") == (True, 0)


def test_the_example_of_standard_webhooks() -> None:
    credential = Credential(Scheme.STANDARD_WEBHOOKS, {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    body = b'{"test": 2432232314}'
    fields = dict(identity_fields(credential, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body))
    assert fields["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    two = Credential(Scheme.STANDARD_WEBHOOKS, {**credential.values, "previous": "whsec_" + "A" * 32})
    signatures = dict(identity_fields(two, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body))["webhook-signature"].split()
    assert len(signatures) == 2
    assert signatures[0] == fields["webhook-signature"]
    assert "webhook-signature" not in dict(identity_fields(None, "a", 1, body))
