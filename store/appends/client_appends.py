"""Appends of clients: refusals, and the stored form of delayed and half messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Message, Placed
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.delay import parking
from store.delay.accompaniment import Accompaniment
from store.delay.timers import WheelTimers
from store.log.open_batch import Done
from store.state.view import StateView
from store.transaction import half
from store.transaction.open_transactions import OpenTransactions


@final
class Outbox:
    """Turns messages into their stored form: delayed messages and half messages go to topics that no client reads."""

    def __init__(self, timers: WheelTimers, accompaniment: Accompaniment, transactions: OpenTransactions, clock: Clock) -> None:
        self._timers = timers
        self._accompaniment = accompaniment
        self._transactions = transactions
        self._clock = clock

    def parked(self, messages: Sequence[Message]) -> tuple[list[Message], list[StateChange]] | Failure:
        """(messages in their stored form, state changes that go with them: those that open their transactions).

        DELIVERY_TIME_ILLEGAL, PROPERTIES_TOO_LARGE, OVERLOADED.
        """
        out: list[Message] = []
        halves: list[Message] = []
        changes: list[StateChange] = []
        now = self._clock.wall_ms()
        for message in messages:
            if message.sys_flag & SYS_PREPARED:
                out.append(half.prepared(message))
                halves.append(out[-1])
            elif properties.may_have_delay(message.properties) and not parking.is_parking_topic(message.topic):
                parked = parking.park(message, now, self._timers.due_min_ms())
                if isinstance(parked, Failure):
                    return parked
                if not parking.is_parking_topic(parked.topic):
                    # Its time has come already: it is delivered now.
                    changes += self._accompaniment.changes_of(parked)
                out.append(parked)
            else:
                out.append(message)
            if len(out[-1].properties) > limits.PROPERTIES_BYTES_MAX:
                return Failure(ErrorCode.PROPERTIES_TOO_LARGE, "no room for what a delayed or prepared message has to carry")
        opened = self._transactions.begin(halves) if halves else []
        return opened if isinstance(opened, Failure) else (out, [*changes, *opened])


@final
class ClientAppends:
    """Appends of clients: refused when the store takes no writes, parked when the message is not readable yet."""

    def __init__(self, writer: StoreWriter, outbox: Outbox, state: StateView) -> None:
        self._writer = writer
        self._state = state
        self._outbox = outbox

    def append(
        self,
        messages: Sequence[Message],
        done: Done | None,
        changes: Sequence[StateChange],
        placed_at: Callable[[Sequence[Placed]], None] | None = None,
    ) -> None:
        """As MessageLog.append, with `placed_at` as in `Appender.add`."""
        failure = self._writer.refusal(messages)
        parks = False
        for message in messages:
            if not 0 <= message.queue_id <= limits.QUEUE_ID_MAX:
                text = f"queue {message.queue_id} of {message.topic}: the store takes queues 0 to {limits.QUEUE_ID_MAX}"
                failure = failure or Failure(ErrorCode.QUEUE_ILLEGAL, text)
            delays = not message.plain and properties.may_have_delay(message.properties)
            parks = parks or delays or message.sys_flag & SYS_PREPARED != 0
        if failure is None and parks:
            parked = self._outbox.parked(messages)
            if isinstance(parked, Failure):
                failure = parked
            else:
                messages, halves = parked
                changes = [*changes, *halves]
        for change in changes:
            if failure is None and change.within is not None:
                failure = self._state.refusal(change)
        if failure is None:
            self._writer.put(messages, changes, done, placed_at)
        elif done is not None:
            done(failure)
