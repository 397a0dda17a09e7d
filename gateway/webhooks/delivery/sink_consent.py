"""Consent of a sink (CloudEvents HTTP WebHook 1.0.2, section 4): requested at the start, after a 401, and every 24 hours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Timer
from domain.subscription.courier import SinkAnswer, SinkRequest
from domain.subscription.subscription import WebhookSubscription, granted_rate
from gateway.webhooks.delivery.delivery_process import DeliveryProcess
from gateway.webhooks.delivery.retry_policy import RETRIED, Verdict, delay_ms, verdict

AGAIN_NS: Final = 24 * 3600 * SECOND_NS
TRIES_MAX: Final = 10
"""Failed requests after which the sink is treated as refusing consent."""


@final
class SinkConsent:
    """Consent of one sink.

    A sink that receives a callback URL may consent there at any time; that arrives as a change of the subscription.

    given     True: deliveries are permitted
    asking    True: a request is in flight
    waiting   True: the sink has not consented, and may do so at the callback URL
    rate      deliveries per minute that the sink grants; 0: unlimited
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        process: DeliveryProcess,
        agreed: Callable[[], None],
        refused: Callable[[str], None],
        waits: Callable[[], None],
    ) -> None:
        """Start with the consent stored in the subscription, if it is less than 24 hours old.

        agreed    called when the sink consents
        refused   called with the reason when it refuses and has no callback URL
        waits     called when it refuses and may consent at the callback URL
        """
        self._subscription = subscription
        self._courier = process.courier
        self._clock = process.clock
        self._entropy = process.entropy
        self._origin = process.origin
        self._agreed = agreed
        self._refused = refused
        self._tries = 0
        self._timer: Timer | None = None
        self._ended = False
        self._waits = waits
        self._callback = f"{process.callback}/subscriptions/{subscription.id}:consent?key={subscription.consent_key}"
        if not process.callback or not subscription.consent_key:
            self._callback = ""
        fresh_ms = subscription.consented_ms + AGAIN_NS // MILLISECOND_NS - process.clock.wall_ms()
        fresh = subscription.consented_ms > 0 and fresh_ms > 0
        self.given = not subscription.verify or fresh
        self.asking = False
        self.waiting = False
        self.rate = subscription.granted_rate if subscription.verify and fresh else 0
        if subscription.verify and fresh:
            self._later(fresh_ms * MILLISECOND_NS)

    def ask(self) -> None:
        """Request consent, unless a request is in flight."""
        if not self.asking and not self._ended:
            self.asking = True
            self._courier.send(question(self._subscription, self._origin, self._callback), self._answered)

    def withdraw(self, ask: bool) -> None:
        """Stop deliveries. `ask`: request consent again."""
        self.given = False
        if ask:
            self.ask()

    def end(self) -> None:
        """Send no further request, and ignore the answer of one in flight."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _answered(self, answer: SinkAnswer) -> None:
        self.asking = False
        if self._ended:
            return
        agreed, rate = consent(answer, self._origin)
        self.waiting = False
        if agreed:
            self.given, self._tries, self.rate = True, 0, rate
            self._later(AGAIN_NS)
            self._agreed()
            return
        self.given = False
        self._tries += 1
        refused = answer.trouble is None and answer.status < 500 and answer.status not in RETRIED
        if refused and answer.status != 410 and self._callback:
            self.waiting = True
            self._later(AGAIN_NS)
            self._waits()
        elif refused or verdict(answer) is Verdict.SUSPEND or self._tries > TRIES_MAX:
            why = answer.text or (
                f"OPTIONS was answered {answer.status}, without WebHook-Allowed-Origin: {self._origin}; let it answer so, or "
                'PUT the subscription with "config": {"verify": false}'
            )
            self._refused(f"the sink does not consent to deliveries: {why}")
        else:
            self._later(delay_ms(self._subscription.retry, self._tries, self._entropy) * MILLISECOND_NS)

    def _later(self, wait_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ns, self.ask)


def question(subscription: WebhookSubscription, origin: str, callback: str) -> SinkRequest:
    """OPTIONS request to the exact URL of the sink. `callback`: URL at which it may consent later; "": none."""
    fields = [("webhook-request-origin", origin)]
    if callback:
        fields.append(("webhook-request-callback", callback))
    if subscription.rate_per_minute:
        fields.append(("webhook-request-rate", str(subscription.rate_per_minute)))
    return SinkRequest("OPTIONS", subscription.sink, fields, b"", subscription.retry.timeout_ms, subscription.credential)


def consent(answer: SinkAnswer, origin: str) -> tuple[bool, int]:
    """(True when the sink consents, deliveries per minute that it grants; 0: unlimited).

    A sink consents by the field WebHook-Allowed-Origin with this origin or `*`, with any status.
    """
    found = {name: value.strip() for name, value in answer.fields}
    allowed = found.get("webhook-allowed-origin", "")
    if allowed != "*" and allowed.lower() != origin.lower():
        return False, 0
    return True, granted_rate(found.get("webhook-allowed-rate", "*"))
