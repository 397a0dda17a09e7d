"""Consent requests to the callback URLs that WebHook senders name (HTTP WebHook 1.0.2, 4.1.3)."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock
from domain.subscription.courier import Courier, SinkAnswer, SinkRequest
from gateway.webhooks.delivery.retry_policy import Verdict, verdict

PENDING_MAX: Final = 64
"""Callbacks in flight or waiting for a retry; a further one is dropped, and its sender asks again."""
CALLS_PER_MINUTE: Final = 60
"""Callbacks started per minute at most: handshakes need no authentication."""
TRIES_MAX: Final = 4
AGAIN_NS: Final = 2 * SECOND_NS
"""Pause before the second try; it doubles with each further one."""
TIMEOUT_MS: Final = 10_000
_MINUTE_NS: Final = 60 * SECOND_NS


@final
class SenderConsent:
    """Sends consents, each up to TRIES_MAX times.

    courier    sends the requests, only to addresses that sinks may have; None: every callback is dropped
    granted    callbacks that were answered 2xx
    failed     callbacks that were not answered 2xx in TRIES_MAX tries, or were refused
    dropped    callbacks over PENDING_MAX or CALLS_PER_MINUTE, or without a courier
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
        """Grant a sender permission to send. A URL with a callback in flight is not called again.

        `rate`: requests per minute; 0: unlimited.
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
