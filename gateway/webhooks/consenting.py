"""Whether a sink consents to deliveries: asked at the start, after a 401, and each day."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.subscription.courier import Courier, SinkAnswer
from domain.subscription.subscription import WebhookSubscription
from gateway.webhooks.handshake import consent, question
from gateway.webhooks.verdict import RETRIED, Verdict, delay_ms, verdict

AGAIN_NS: Final = 24 * 3600 * SECOND_NS
TRIES_MAX: Final = 10
"""Questions without an answer after which the sink counts as one that does not consent."""


@final
class Consenting:
    """The consent of one sink.

    given    True: deliveries may go out
    asking   True: a question is under way
    rate     deliveries a minute that the sink grants; 0: no bound
    """

    def __init__(
        self,
        subscription: WebhookSubscription,
        courier: Courier,
        clock: Clock,
        entropy: Entropy,
        origin: str,
        agreed: Callable[[], None],
        refused: Callable[[str], None],
    ) -> None:
        """`agreed`: called when the sink consents; `refused`: with the reason, when it does not."""
        self._subscription = subscription
        self._courier = courier
        self._clock = clock
        self._entropy = entropy
        self._origin = origin
        self._agreed = agreed
        self._refused = refused
        self._tries = 0
        self._timer: Timer | None = None
        self._ended = False
        self.given = not subscription.verify
        self.asking = False
        self.rate = 0

    def ask(self) -> None:
        """Ask the sink, unless a question is under way."""
        if not self.asking and not self._ended:
            self.asking = True
            self._courier.send(question(self._subscription, self._origin), self._answered)

    def withdraw(self, ask: bool) -> None:
        """Deliveries may not go out any more. `ask`: ask the sink anew."""
        self.given = False
        if ask:
            self.ask()

    def end(self) -> None:
        """Ask nothing more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _answered(self, answer: SinkAnswer) -> None:
        self.asking = False
        if self._ended:
            return
        agreed, rate = consent(answer, self._origin)
        if agreed:
            self.given, self._tries, self.rate = True, 0, rate
            self._later(AGAIN_NS)
            self._agreed()
            return
        self.given = False
        self._tries += 1
        refused = answer.trouble is None and answer.status < 500 and answer.status not in RETRIED
        if refused or verdict(answer) is Verdict.SUSPEND or self._tries > TRIES_MAX:
            why = answer.text or f"OPTIONS was answered {answer.status}, without WebHook-Allowed-Origin: {self._origin}"
            self._refused(f"the sink does not consent to deliveries: {why}")
        else:
            self._later(delay_ms(self._subscription.retry, self._tries, self._entropy) * MILLISECOND_NS)

    def _later(self, wait_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ns, self.ask)
