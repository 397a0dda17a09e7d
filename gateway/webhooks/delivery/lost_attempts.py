"""Attempts that a process did not record before it ended; they are detected when their message is redelivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from domain.admin.subscription import Attempt, AttemptList, QueryAttempts
from domain.event import Event, Leased
from domain.message.record import Record
from domain.subscription.subscription import ATTEMPTS_MAX, WebhookSubscription
from gateway.webhooks.delivery.delivery_process import DeliveryProcess
from gateway.webhooks.delivery.request_format import message_id

OWN_MAX: Final = 16_384
"""Messages for which this process remembers the last attempt that it recorded."""
BACK_MAX: Final = 8
"""Attempts of one message that are checked: several processes may have ended one after the other."""
PENDING_MAX: Final = 1_024
"""Messages that wait for a check; a further one is only counted as `unknown`."""
UNKNOWN: Final = "the process that sent it has ended before it recorded what came of it"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The attempts 1 to `number` of one message, which the log should hold. `messages`: size of the request in messages."""

    topic: str
    identity: str
    number: int
    messages: int


@final
class LostAttempts:
    """Compares the attempt count of a lease with the attempts in the log, and records missing ones as `unknown`.

    The count of a lease includes the attempts of all processes. Attempts of this process need no query.
    """

    def __init__(
        self, subscription: WebhookSubscription, process: DeliveryProcess, note: Callable[[str, Attempt], None]
    ) -> None:
        """`note(topic, attempt)` records an attempt."""
        self._id = subscription.id
        self._client = process.client
        self._clock = process.clock
        self._counters = process.counters
        self._note = note
        self._own: dict[str, int] = {}
        self._pending: list[_Wanted] = []
        self._asking = False

    def made(self, messages: Sequence[Leased]) -> None:
        """Remember that an attempt of these messages is recorded; they will be redelivered."""
        if len(self._own) >= OWN_MAX:
            self._own.clear()  # the log is queried instead
        for each in messages:
            self._own[message_id(Record(each.record))] = each.attempt

    def poll(self, topic: str, identity: str, number: int, messages: int) -> None:
        """Check that attempts 1 to `number` of a message are in the log. `messages`: messages in the current request."""
        if self._own.pop(identity, 0) >= number:
            return
        if len(self._pending) >= PENDING_MAX:
            self._counters["unknown"] += 1
            return
        self._pending.append(_Wanted(topic, identity, number, messages))
        if not self._asking:
            self._asking = True
            self._client.ask(lambda ticket: QueryAttempts(ticket, self._id, ATTEMPTS_MAX), self._found)

    def _found(self, event: Event) -> None:
        """Compare the pending messages with the attempts in the log."""
        self._asking = False
        pending, self._pending = self._pending, []
        known = event.attempts if isinstance(event, AttemptList) else []
        numbers: dict[str, set[int]] = {}
        together = 0
        for each in known:
            numbers.setdefault(each.message_id, set()).add(each.number)
            if each.messages > 1:  # such an attempt has the id of its first message only
                together = max(together, each.number)
        back = 1 if len(known) >= ATTEMPTS_MAX else BACK_MAX  # a full log may have dropped older attempts
        for wanted in pending:
            for number in range(max(1, wanted.number + 1 - back, together + 1), wanted.number + 1):
                if number not in numbers.get(wanted.identity, ()):
                    self._record(wanted, number)

    def _record(self, wanted: _Wanted, number: int) -> None:
        self._counters["unknown"] += 1
        attempt = Attempt(self._clock.wall_ms(), wanted.identity, wanted.messages, number, 0, 0, "unknown", UNKNOWN)
        self._note(wanted.topic, attempt)
