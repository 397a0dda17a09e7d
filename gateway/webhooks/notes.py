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
"""So many attempts are stored at once."""
HELD_MAX: Final = 4_096
"""Attempts that are held while the store refuses them."""
AGAIN_NS: Final = 1_000 * MILLISECOND_NS


@final
class AttemptNotes:
    """Holds attempts until they are stored. Those that are not stored in the end are counted as `unrecorded`.

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
        self._unanswered: dict[int, list[Attempt]] = {}
        self._serial = 0
        self._ended = False

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
        if not held:
            return
        self._serial += 1
        serial = self._serial
        self._unanswered[serial] = held

        def stored(event: Event) -> None:
            del self._unanswered[serial]
            if isinstance(event, Refused):
                self._again(held)

        self._send(held, 0, stored)

    def _again(self, refused: list[Attempt]) -> None:
        """The store has refused them: try again later, with no more than HELD_MAX; the oldest are dropped, and counted."""
        if self._ended:
            self._count("unrecorded", len(refused))
            return
        self._held[:0] = refused
        dropped = max(0, len(self._held) - HELD_MAX)
        if dropped:
            del self._held[:dropped]
            self._count("unrecorded", dropped)
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + AGAIN_NS, self.store)

    def end(self, release: bool) -> list[Attempt]:
        """Store what is held, for the last time. `release` False: no answer comes any more; returns what may not be stored."""
        self._ended = True
        if release:
            self.store()
            return []
        if self._timer is not None:
            self._timer.cancel()
        left = [each for held in self._unanswered.values() for each in held] + self._held
        self._held = []
        return left

    def tested(self, serial: int, attempt: Attempt) -> None:
        """The attempt of a test delivery, for whoever asked for it."""
        self._send([attempt], serial, _ignore)

    def _send(self, attempts: list[Attempt], test: int, then: Callable[[Event], None]) -> None:
        identity, epoch, breaker = self._identity, self._epoch, self._breaker()
        self._asker.ask(lambda ticket: RecordAttempts(ticket, identity, epoch, attempts, breaker, test), then)


def _ignore(event: Event) -> None:
    """Whoever asked for the test is told by a time-out."""
