"""Delivery attempts in the state of the store: the newest ATTEMPTS_MAX of each subscription."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, final

import orjson

from domain.admin.position import Progress, QueryProgress
from domain.admin.subscription import (
    Attempt,
    AttemptList,
    DeliveriesRecorded,
    DeliveryReport,
    QueryAttempts,
    RecordAttempts,
    RecordDeliveries,
)
from domain.command import Acknowledge, Command
from domain.errors import Failure
from domain.event import Done, Event, Refused, Settled
from domain.message.receipt import Receipt
from domain.store.store_ports import State, StateChange, StatePairs
from domain.subscription.subscription import ATTEMPTS_MAX
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.waiting.fan_in import FanIn
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.claims import Claims
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions

SPACE: Final = "webhook-attempt"
"""State space: `<id>/` and the slot in a ring of ATTEMPTS_MAX, 4 bytes -> JSON of the attempt with its serial number."""
QUERY_MAX: Final = 1_000


@final
class DeliveryAttempts:
    """The verbs RecordAttempts, RecordDeliveries and QueryAttempts.

    The attempts of a subscription are in a ring: a new one overwrites the oldest, and none has to be deleted.
    """

    def __init__(self, state: State, book: WebhookSubscriptions, claims: Claims, settling: InternalClient) -> None:
        """`settling`: sends the acknowledgements of RecordDeliveries, and queries the progress of groups."""
        self._state = state
        self._book = book
        self._claims = claims
        self._settling = settling
        self._next: dict[str, int] = {}
        self._breakers: dict[str, str] = {}
        self._asking: dict[str, list[Callable[[None | Failure], None]]] = {}
        book.changed.append(self._changed)
        self.verbs: Verbs = {RecordAttempts: self._record, RecordDeliveries: self._deliveries, QueryAttempts: self._query}

    def _changed(self, identity: str) -> None:
        if self._book.find(identity) is None:
            self._next.pop(identity, None)
            self._breakers.pop(identity, None)
            self._remove(identity)

    def _remove(self, identity: str) -> None:
        prefix = f"{identity}/".encode()

        def found(result: list[bytes] | Failure) -> None:
            if not isinstance(result, Failure) and result:
                self._state.put([StateChange(SPACE, key, None) for key in result], None)

        self._state.keys(SPACE, prefix, prefix, ATTEMPTS_MAX, found)

    def _record(self, connection: ClientConnection, command: RecordAttempts) -> None:
        if command.test:
            self._claims.tested(command.test, command.attempts)
        delivery = DeliveryReport(command.id, command.epoch, command.breaker, command.attempts, "", "")

        stored = answered(connection, Done(command.ticket))
        self._known([command.id], lambda failure: stored(failure) if failure else self._store([delivery], stored))

    def _deliveries(self, connection: ClientConnection, command: RecordDeliveries) -> None:
        """Store the attempts of a command, then send its acknowledgements."""
        deliveries = command.deliveries
        settled: dict[tuple[str, str], list[Receipt]] = {}
        for each in deliveries:
            if each.receipts:
                settled.setdefault((each.group, each.topic), []).extend(each.receipts)
        failures: list[Failure] = []
        left = 1 + len(settled)
        unsettled = 0

        def done() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            if failures:
                connection.answer(Refused(command.ticket, failures[0]))
            else:
                connection.answer(DeliveriesRecorded(command.ticket, unsettled))

        def stored(result: None | Failure) -> None:
            if result is not None:
                failures.append(result)
            done()

        def acknowledged(count: int, event: Event) -> None:
            """Count refused acknowledgements. They do not fail the command, since a retry would record its attempts twice."""
            nonlocal unsettled
            unsettled += sum(1 for each in event.outcomes if each is not None) if isinstance(event, Settled) else count
            done()

        def known(failure: Failure | None) -> None:
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            self._store(deliveries, stored)
            for (group, topic), receipts in settled.items():
                self._settling.ask(_acknowledgement(group, topic, receipts), partial(acknowledged, len(receipts)))

        self._known([each.id for each in deliveries], known)

    def _known(self, identities: Sequence[str], then: Callable[[None | Failure], None]) -> None:
        """Call `then` once the serial number of the next attempt of each subscription is known."""
        asked = [(each,) for each in identities if each not in self._next and self._book.find(each) is not None]
        if not asked:
            then(None)
            return
        FanIn(self._ask_newest, lambda _, failure: then(failure)).start(asked)

    def _ask_newest(self, identity: str, then: Callable[[None | Failure], None]) -> None:
        waiting = self._asking.setdefault(identity, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._newest(identity)

    def _newest(self, identity: str) -> None:
        """Read the serial number of the next attempt from the store, once after the store was opened."""

        def found(result: list[Attempt] | Failure, serial: int) -> None:
            waiting = self._asking.pop(identity, [])
            failure = result if isinstance(result, Failure) else None
            if failure is None and self._book.find(identity) is not None:
                self._next[identity] = serial
            for each in waiting:
                each(failure)

        self._read(identity, found)

    def _store(self, deliveries: Iterable[DeliveryReport], done: Callable[[None | Failure], None]) -> None:
        """Store the attempts in one write. Those of deleted subscriptions are dropped."""
        changes: list[StateChange] = []
        for each in deliveries:
            serial = self._next.get(each.id)
            if serial is None:
                continue  # deleted meanwhile
            self._breakers[each.id] = each.breaker
            prefix = f"{each.id}/".encode()
            for attempt in each.attempts:
                key = prefix + (serial % ATTEMPTS_MAX).to_bytes(4, "big")
                changes.append(StateChange(SPACE, key, _encode(serial, attempt)))
                serial += 1
            self._next[each.id] = serial
        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    def _query(self, connection: ClientConnection, command: QueryAttempts) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        limit = max(1, min(command.limit, QUERY_MAX))

        def read(result: list[Attempt] | Failure, _: int) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
                return
            answer = AttemptList(command.ticket, result[:limit], self._breakers.get(command.id, "closed"))
            if command.lag:
                self._settling.ask(lambda ticket: QueryProgress(ticket, found.group), partial(progressed, answer))
            else:
                connection.answer(answer)

        def progressed(answer: AttemptList, event: Event) -> None:
            if isinstance(event, Progress):
                answer.lag = sum(max(0, end - position) for _, _, end, position in event.queues)
            connection.answer(answer)

        self._read(command.id, read)

    def _read(self, identity: str, done: Callable[[list[Attempt] | Failure, int], None]) -> None:
        """Call `done` with all attempts of a subscription, the newest first, and the serial number of the next one."""
        prefix = f"{identity}/".encode()
        found: list[tuple[int, Attempt]] = []

        def part(result: StatePairs | Failure) -> None:
            if isinstance(result, Failure):
                done(result, 0)
                return
            found.extend(_decode(value) for _, value in result.pairs)
            if result.next_key is not None:
                self._state.pairs(SPACE, prefix, result.next_key, ATTEMPTS_MAX, part)
                return
            found.sort(key=lambda each: -each[0])
            done([attempt for _, attempt in found], found[0][0] + 1 if found else 0)

        self._state.pairs(SPACE, prefix, prefix, ATTEMPTS_MAX, part)


def _acknowledgement(group: str, topic: str, receipts: list[Receipt]) -> Callable[[object], Command]:
    return lambda ticket: Acknowledge(ticket, group, topic, receipts)


def _encode(serial: int, attempt: Attempt) -> bytes:
    return orjson.dumps(
        {
            "serial": serial, "at_ms": attempt.at_ms, "message_id": attempt.message_id, "messages": attempt.messages,
            "number": attempt.number, "status": attempt.status, "took_ms": attempt.took_ms, "outcome": attempt.outcome,
            "text": attempt.text.encode("utf-8", "replace").decode(),
            "answer": attempt.answer.decode("latin-1"), "next_ms": attempt.next_ms,
        }
    )  # fmt: skip


def _decode(value: bytes) -> tuple[int, Attempt]:
    members = orjson.loads(value)
    serial = int(members.pop("serial"))
    members["answer"] = members["answer"].encode("latin-1")
    return serial, Attempt(**members)
