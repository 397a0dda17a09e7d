"""Consent that is sent to WebHook senders: to the callback URL that a sender has named (HTTP WebHook 1.0.2, 4.1.3)."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock
from domain.subscription.courier import Courier, SinkAnswer, SinkRequest
from gateway.webhooks.delivery.retry_policy import Verdict, verdict

PENDING_MAX: Final = 64
"""Callbacks that are not finished; one more is dropped. A sender asks again."""
CALLS_PER_MINUTE: Final = 60
"""Callbacks that begin within a minute at most: anybody can send a handshake."""
TRIES_MAX: Final = 4
AGAIN_NS: Final = 2 * SECOND_NS
"""Pause before the second try; it doubles with each further one."""
TIMEOUT_MS: Final = 10_000
_MINUTE_NS: Final = 60 * SECOND_NS


@final
class SenderConsent:
    """Sends consents, each with a few tries.

    courier    sends the requests, to addresses that sinks may have; None: there is none, and all are dropped
    granted    callbacks that were answered 2xx
    failed     callbacks that were not, after all tries
    dropped    callbacks beyond a bound
    """

    def __init__(self, clock: Clock) -> None:
        self.courier: Courier | None = None
        self.granted = 0
        self.failed = 0
        self.dropped = 0
        self._clock = clock
        self._pending: set[str] = set()
        self._begun: deque[int] = deque()

    def grant(self, url: str, origin: str, rate: int) -> None:
        """Tell a sender that it may send. A URL that is being called is not called twice.

        `rate`: requests a minute; 0: no bound.
        """
        if url in self._pending:
            return
        now = self._clock.monotonic_ns()
        while self._begun and now - self._begun[0] >= _MINUTE_NS:
            self._begun.popleft()
        if self.courier is None or len(self._pending) >= PENDING_MAX or len(self._begun) >= CALLS_PER_MINUTE:
            self.dropped += 1
            return
        self._begun.append(now)
        self._pending.add(url)
        fields = [("webhook-allowed-origin", origin), ("webhook-allowed-rate", str(rate) if rate else "*")]
        self._send(SinkRequest("POST", url, fields, b"", TIMEOUT_MS), 1)

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""
        return {
            "webhook_consents_sent_total": self.granted,
            "webhook_consents_failed_total": self.failed,
            "webhook_consents_dropped_total": self.dropped,
        }

    def _send(self, request: SinkRequest, number: int) -> None:
        if self.courier is not None:
            self.courier.send(request, lambda answer: self._answered(request, number, answer))

    def _answered(self, request: SinkRequest, number: int, answer: SinkAnswer) -> None:
        outcome = verdict(answer)
        if outcome is Verdict.RETRY and number < TRIES_MAX:
            due = self._clock.monotonic_ns() + (AGAIN_NS << (number - 1))
            self._clock.call_at(due, lambda: self._send(request, number + 1))
            return
        self._pending.discard(request.url)
        if outcome is Verdict.DELIVERED:
            self.granted += 1
        else:
            self.failed += 1
