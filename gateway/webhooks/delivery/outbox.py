"""Outbox of delivery reports: attempts and acknowledgements, sent to the store in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.admin.subscription import DeliveriesRecorded, DeliveryReport, RecordDeliveries
from domain.event import Event
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.webhooks.internal_client import InternalClient

FLUSH_NS: Final = 20 * MILLISECOND_NS
"""Time for which reports are collected before they are sent."""
NOTIFIED_MAX: Final = 256
"""Reports in one command at most."""
HELD_MAX: Final = 4_096
"""Reports held while the store refuses them."""
AGAIN_NS: Final = 1_000 * MILLISECOND_NS


@final
class DeliveryOutbox:
    """Delivery reports of all deliverers of a process.

    Attempts are sent before or with the settlement of their messages, so that every settled message has its attempts in the
    log. Attempts that are dropped are counted as `unrecorded`, acknowledgements that are dropped or refused as `unsettled`.
    """

    def __init__(self, client: InternalClient, clock: Clock, counters: dict[str, int]) -> None:
        self._client = client
        self._clock = clock
        self._counters = counters
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
        """Add a report: attempts, with the receipts of messages to acknowledge.

        `at_once`: flush now, since the next messages of an ordered subscription wait for the acknowledgement.
        """
        self._held.append(delivery)
        if self._refused:
            self._bound()
        self._arm(0 if at_once or len(self._held) >= NOTIFIED_MAX else FLUSH_NS)

    def after(self, call: Callable[[], None]) -> None:
        """Flush soon, then run `call`: the commands that it sends follow the attempts."""
        self._after.append(call)
        self._arm(0)

    def flush(self) -> None:
        """Send all held reports to the store, NOTIFIED_MAX in a command."""
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
        """End the outbox, since the store has closed the client. Returns the reports that may not be stored."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        return [each for batch in self._unanswered.values() for each in batch] + self._refused + self._held

    def again(self, left: list[DeliveryReport]) -> None:
        """Send the reports that `end` of an earlier outbox returned, without receipts: others may have leased the messages."""
        for each in left:
            each.receipts.clear()
        self._hold(left)

    def _notify(self, held: list[DeliveryReport]) -> None:
        self._serial += 1
        serial = self._serial
        self._unanswered[serial] = held

        def answered(event: Event) -> None:
            del self._unanswered[serial]
            if isinstance(event, DeliveriesRecorded):
                self._counters["unsettled"] += event.unsettled
            else:
                self._hold(held)

        self._client.ask(lambda ticket: RecordDeliveries(ticket, held), answered)

    def _hold(self, refused: list[DeliveryReport]) -> None:
        """Keep refused reports for a retry after AGAIN_NS, in the order in which they were sent."""
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
        """Drop and count the oldest refused reports over HELD_MAX."""
        dropped = self._refused[: max(0, len(self._refused) + len(self._held) - HELD_MAX)]
        if dropped:
            del self._refused[: len(dropped)]
            self._counters["unrecorded"] += sum(len(each.attempts) for each in dropped)
            self._counters["unsettled"] += sum(len(each.receipts) for each in dropped)

    def _arm(self, wait_ns: int) -> None:
        """Flush after `wait_ns`, or earlier if a flush is due earlier; not during the pause after a refusal."""
        due = max(self._clock.monotonic_ns() + wait_ns, self._resume_ns)
        if self._timer is not None:
            if self._due_ns <= due:
                return
            self._timer.cancel()
        self._due_ns = due
        self._timer = self._clock.call_at(due, self.flush)
