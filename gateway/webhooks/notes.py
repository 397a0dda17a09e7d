"""Attempts of one deliverer, stored together after a short while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.admin.subscription import Attempt, RecordAttempts
from domain.event import Event, Refused
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.webhooks.asker import Asker

NOTE_NS: Final = 200 * MILLISECOND_NS
"""Attempts are stored together at this interval."""
NOTES_MAX: Final = 256
"""Attempts that are held for that, at most: so many are stored at once."""


@final
class AttemptNotes:
    """Holds attempts until they are stored. Those that the store refuses are counted as `unrecorded`.

    breaker   how the breaker stands, in the word that is stored with the attempts
    count     counts what has happened
    """

    def __init__(
        self,
        identity: str,
        epoch: int,
        asker: Asker,
        clock: Clock,
        breaker: Callable[[], str],
        count: Callable[[str, int], None],
    ) -> None:
        self._identity = identity
        self._epoch = epoch
        self._asker = asker
        self._clock = clock
        self._breaker = breaker
        self._count = count
        self._held: list[Attempt] = []
        self._timer: Timer | None = None

    def add(self, attempt: Attempt) -> None:
        """One more attempt."""
        self._held.append(attempt)
        if len(self._held) >= NOTES_MAX:
            self.store()
        elif self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + NOTE_NS, self.store)

    def store(self) -> None:
        """Store what is held, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        if held:
            self._send(held, 0, lambda event: self._count("unrecorded", len(held)) if isinstance(event, Refused) else None)

    def tested(self, serial: int, attempt: Attempt) -> None:
        """The attempt of a test delivery, for whoever asked for it."""
        self._send([attempt], serial, _ignore)

    def _send(self, attempts: list[Attempt], test: int, then: Callable[[Event], None]) -> None:
        identity, epoch, breaker = self._identity, self._epoch, self._breaker()
        self._asker.ask(lambda ticket: RecordAttempts(ticket, identity, epoch, attempts, breaker, test), then)


def _ignore(event: Event) -> None:
    """Whoever asked for the test is told by a time-out."""
