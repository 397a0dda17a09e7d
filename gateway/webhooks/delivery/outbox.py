"""What deliveries have come to, told to the store together after a short while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.admin.subscription import DeliveriesRecorded, DeliveryReport, RecordDeliveries
from domain.event import Event
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.webhooks.internal_client import InternalClient

FLUSH_NS: Final = 20 * MILLISECOND_NS
"""Deliveries of this time are told together."""
NOTIFIED_MAX: Final = 256
"""So many are told at once."""
HELD_MAX: Final = 4_096
"""Deliveries that are held while the store refuses them."""
AGAIN_NS: Final = 1_000 * MILLISECOND_NS


@final
class DeliveryOutbox:
    """Attempts and acknowledgements of all deliverers of a process.

    Attempts are told no later than what becomes of their messages: whatever is settled has its attempt in the log. Those that
    are not stored in the end are counted as `unrecorded`, acknowledgements that are refused as `unsettled`.
    """

    def __init__(self, asker: InternalClient, clock: Clock, count: Callable[[str, int], None]) -> None:
        """`count`: counts what has happened, by words."""
        self._asker = asker
        self._clock = clock
        self._count = count
        self._held: list[DeliveryReport] = []
        self._refused: list[DeliveryReport] = []
        self._after: list[Callable[[], None]] = []
        self._unanswered: dict[int, list[DeliveryReport]] = {}
        self._serial = 0
        self._timer: Timer | None = None
        self._due_ns = 0
        self._resume_ns = 0
        self._ended = False

    def add(self, delivery: DeliveryReport, at_once: bool = False) -> None:
        """One attempt, with the receipts of the messages that it has settled. `at_once`: others wait for that."""
        self._held.append(delivery)
        if self._refused:
            self._bound()
        self._arm(0 if at_once or len(self._held) >= NOTIFIED_MAX else FLUSH_NS)

    def after(self, call: Callable[[], None]) -> None:
        """Call something behind the next flush, which is soon: what it tells the store comes behind the attempts."""
        self._after.append(call)
        self._arm(0)

    def flush(self) -> None:
        """Tell the store what is held, NOTIFIED_MAX deliveries in a command."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held, self._refused = [*self._refused, *self._held], [], []
        after, self._after = self._after, []
        for at in range(0, len(held), NOTIFIED_MAX):
            self._notify(held[at : at + NOTIFIED_MAX])
        for call in after:
            call()

    def end(self) -> list[DeliveryReport]:
        """The store has forgotten this process: no answer comes any more. Returns what may not be stored."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        return [each for notified in self._unanswered.values() for each in notified] + self._refused + self._held

    def again(self, left: list[DeliveryReport]) -> None:
        """Tell what `end` of another one returned: attempts alone, since another owner may have the messages."""
        for each in left:
            each.receipts.clear()
        self._hold(left)

    def _notify(self, held: list[DeliveryReport]) -> None:
        self._serial += 1
        serial = self._serial
        self._unanswered[serial] = held

        def notified(event: Event) -> None:
            del self._unanswered[serial]
            if isinstance(event, DeliveriesRecorded):
                if event.unsettled:
                    self._count("unsettled", event.unsettled)
            else:
                self._hold(held)

        self._asker.ask(lambda ticket: RecordDeliveries(ticket, held), notified)

    def _hold(self, refused: list[DeliveryReport]) -> None:
        """Try again later; refusals come in the order of what was told."""
        if self._ended or not refused:
            return
        self._refused += refused
        self._bound()
        self._resume_ns = self._clock.monotonic_ns() + AGAIN_NS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._arm(0)

    def _bound(self) -> None:
        """While the store refuses, no more than HELD_MAX are held; the oldest are dropped, and counted."""
        dropped = self._refused[: max(0, len(self._refused) + len(self._held) - HELD_MAX)]
        if dropped:
            del self._refused[: len(dropped)]
            self._count("unrecorded", sum(len(each.attempts) for each in dropped))
            self._count("unsettled", sum(len(each.receipts) for each in dropped))

    def _arm(self, wait_ns: int) -> None:
        """Flush after this time, or sooner when that is wanted already; not while the store refuses."""
        due = max(self._clock.monotonic_ns() + wait_ns, self._resume_ns)
        if self._timer is not None:
            if self._due_ns <= due:
                return
            self._timer.cancel()
        self._due_ns = due
        self._timer = self._clock.call_at(due, self.flush)
