"""The handshake as a sender (CloudEvents HTTP WebHook 1.0.2, section 4): what is asked, when, and what an answer means."""

from __future__ import annotations

import pytest

from domain.limits import SECOND_NS
from domain.subscription.courier import SinkRequest, Trouble
from domain.subscription.subscription import SinkRetry, WebhookSubscription
from gateway.webhooks.delivery.sink_consent import AGAIN_NS, TRIES_MAX, SinkConsent
from tests.gateway.webhooks.held_courier import HeldCourier, process_of
from tests.simulation.kit.clock import VirtualClock

URL = "https://sink.example/hook?a=1"
CONSENT = [("webhook-allowed-origin", "me.example")]


DAY_MS = 24 * 3_600 * 1_000


class Sender:
    """A subscription that asks, and what it was told."""

    def __init__(self, rate: int = 0, callback: str = "", consented_ms: int = 0, granted: int = 0) -> None:
        subscription = WebhookSubscription(
            "s1", "orders", URL, rate_per_minute=rate, retry=SinkRetry(delay_ms=1_000), consent_key="k1",
            consented_ms=consented_ms, granted_rate=granted,
        )  # fmt: skip
        self.courier, self.clock = HeldCourier(), VirtualClock()
        self.agreed = self.waits = 0
        self.refusals: list[str] = []
        process = process_of(self.courier, self.clock, None, callback)
        self.consenting = SinkConsent(subscription, process, self._agree, self.refusals.append, self._wait)

    def _agree(self) -> None:
        self.agreed += 1

    def _wait(self) -> None:
        self.waits += 1

    def asked(self) -> SinkRequest:
        """The last question."""
        return self.courier.sent[-1]


def test_the_exact_url_is_asked_with_origin_and_rate() -> None:
    sender = Sender(rate=120)
    sender.consenting.ask()
    sender.consenting.ask()
    assert len(sender.courier.sent) == 1
    asked = sender.asked()
    assert (asked.method, asked.url, asked.body) == ("OPTIONS", URL, b"")
    assert dict(asked.fields) == {"webhook-request-origin": "me.example", "webhook-request-rate": "120"}
    assert not sender.consenting.given
    unrated = Sender()
    unrated.consenting.ask()
    assert dict(unrated.asked().fields) == {"webhook-request-origin": "me.example"}


@pytest.mark.parametrize(("granted", "rate"), [("60", 60), ("*", 0), ("0", 1), ("many", 0), (None, 0)])
def test_consent_comes_with_a_rate(granted: str | None, rate: int) -> None:
    sender = Sender()
    sender.consenting.ask()
    sender.courier.answer(405, fields=[*CONSENT, *([] if granted is None else [("webhook-allowed-rate", granted)])])
    assert (sender.consenting.given, sender.consenting.rate, sender.agreed) == (True, rate, 1)


def test_a_sink_is_asked_anew_each_day_and_after_a_401() -> None:
    sender = Sender()
    sender.consenting.ask()
    sender.courier.answer(200, fields=CONSENT)
    sender.clock.run_ns(AGAIN_NS - SECOND_NS)
    assert len(sender.courier.sent) == 1
    sender.clock.run_ns(SECOND_NS)
    assert (len(sender.courier.sent), sender.consenting.given) == (2, True)
    sender.courier.answer(200, fields=CONSENT)
    sender.consenting.withdraw(ask=True)
    assert (len(sender.courier.sent), sender.consenting.given) == (3, False)
    sender.courier.answer(200)
    assert (sender.consenting.given, len(sender.refusals)) == (False, 1)


def test_a_sink_that_cannot_be_asked_is_asked_again_and_not_for_ever() -> None:
    sender = Sender()
    sender.consenting.ask()
    for number in range(TRIES_MAX):
        sender.courier.answer(0 if number % 2 else 503, trouble=Trouble.TIMEOUT if number % 2 else None)
        assert sender.refusals == []
        sender.clock.run_ns(24 * 3_600 * SECOND_NS)
    sender.courier.answer(503)
    assert len(sender.refusals) == 1
    sender.clock.run_ns(48 * 3_600 * SECOND_NS)
    assert len(sender.courier.sent) == TRIES_MAX + 1


@pytest.mark.parametrize(
    ("status", "trouble"), [(200, None), (403, None), (405, None), (410, None), (0, Trouble.REFUSED_ADDRESS)]
)
def test_an_answer_without_consent_is_none_whatever_its_status(status: int, trouble: Trouble | None) -> None:
    sender = Sender()
    sender.consenting.ask()
    sender.courier.answer(status, trouble=trouble, fields=[("webhook-allowed-origin", "other.example")])
    assert (sender.consenting.given, sender.agreed, len(sender.refusals)) == (False, 0, 1)


def test_a_sink_is_told_where_it_may_consent_and_is_waited_for() -> None:
    """Section 4.1.3: the URL has the subscription and a secret. Whatever the answer says, a person may still call it."""
    sender = Sender(callback="https://me.example/api")
    sender.consenting.ask()
    assert dict(sender.asked().fields) == {
        "webhook-request-origin": "me.example",
        "webhook-request-callback": "https://me.example/api/subscriptions/s1:consent?key=k1",
    }
    for number, status in enumerate((204, 405, 404), 1):
        sender.courier.answer(status)
        assert (sender.consenting.given, sender.consenting.waiting, sender.waits) == (False, True, number)
        sender.clock.run_ns(AGAIN_NS)
        assert len(sender.courier.sent) == number + 1
    assert sender.refusals == []
    sender.courier.answer(200, fields=CONSENT)
    assert (sender.consenting.given, sender.consenting.waiting, sender.agreed) == (True, False, 1)


@pytest.mark.parametrize(("status", "trouble"), [(410, None), (0, Trouble.REFUSED_ADDRESS)])
def test_a_sink_that_is_gone_is_not_waited_for(status: int, trouble: Trouble | None) -> None:
    sender = Sender(callback="https://me.example")
    sender.consenting.ask()
    sender.courier.answer(status, trouble=trouble)
    assert (sender.consenting.waiting, len(sender.refusals)) == (False, 1)


def test_consent_that_came_by_callback_holds_for_a_day() -> None:
    now_ms = VirtualClock().wall_ms()
    sender = Sender(callback="https://me.example", consented_ms=now_ms - DAY_MS // 2, granted=30)
    assert (sender.consenting.given, sender.consenting.rate) == (True, 30)
    sender.clock.run_ns(AGAIN_NS // 2 - SECOND_NS)
    assert sender.courier.sent == []
    sender.clock.run_ns(SECOND_NS)
    assert len(sender.courier.sent) == 1
    assert not Sender(callback="https://me.example", consented_ms=now_ms - DAY_MS, granted=30).consenting.given


def test_after_the_end_nothing_is_asked_or_told() -> None:
    sender = Sender()
    sender.consenting.ask()
    sender.consenting.end()
    sender.courier.answer(200, fields=CONSENT)
    sender.consenting.ask()
    assert (len(sender.courier.sent), sender.agreed) == (1, 0)


def test_a_refusal_says_what_to_do() -> None:
    sender = Sender()
    sender.consenting.ask()
    sender.courier.answer(404)
    [reason] = sender.refusals
    assert "OPTIONS was answered 404, without WebHook-Allowed-Origin: me.example; let it answer so, or PUT" in reason
    assert '"config": {"verify": false}' in reason
