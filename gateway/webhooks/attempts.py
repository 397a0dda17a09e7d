"""AttemptBook to deliver, as records of the log: the newest ones of each subscription can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, final

from domain.admin.subscription import Attempt, AttemptList, QueryAttempts, RecordAttempts
from domain.command import Command
from domain.errors import Failure
from domain.event import Done, Refused
from domain.store_ports import State, StateChange, StatePairs
from domain.subscription.subscription import ATTEMPTS_MAX
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verb
from gateway.webhooks.book import SubscriptionBook
from gateway.webhooks.claims import Claims

SPACE: Final = "webhook-attempt"
"""State space: `<id>/` and the place in a ring of ATTEMPTS_MAX, 4 bytes -> JSON of the attempt with its serial number."""
QUERY_MAX: Final = 1_000


@final
class AttemptBook:
    """The verbs RecordAttempts and QueryAttempts.

    AttemptBook of a subscription are in a ring: a new one takes the place of the oldest, so that nothing has to be deleted.
    """

    def __init__(self, state: State, book: SubscriptionBook, claims: Claims) -> None:
        self._state = state
        self._book = book
        self._claims = claims
        self._next: dict[str, int] = {}
        self._breakers: dict[str, str] = {}
        self._asking: dict[str, list[tuple[ClientConnection, RecordAttempts]]] = {}
        book.changed.append(self._changed)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """RecordAttempts, QueryAttempts."""
        return {RecordAttempts: self._record, QueryAttempts: self._query}

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
        self._breakers[command.id] = command.breaker
        if command.test:
            self._claims.tested(command.test, command.attempts)
        if not command.attempts or self._book.find(command.id) is None:
            connection.answer(Done(command.ticket))
            return
        if command.id in self._next:
            self._store(connection, command)
            return
        waiting = self._asking.setdefault(command.id, [])
        waiting.append((connection, command))
        if len(waiting) == 1:
            self._newest(command.id)

    def _newest(self, identity: str) -> None:
        """Find the serial number to go on with: the first attempt since this store was opened."""

        def found(result: list[Attempt] | Failure, serial: int) -> None:
            waiting = self._asking.pop(identity, [])
            if not isinstance(result, Failure):
                self._next[identity] = serial
            for connection, command in waiting:
                if isinstance(result, Failure):
                    connection.answer(Refused(command.ticket, result))
                else:
                    self._store(connection, command)

        self._read(identity, found)

    def _store(self, connection: ClientConnection, command: RecordAttempts) -> None:
        serial = self._next[command.id]
        changes: list[StateChange] = []
        for attempt in command.attempts:
            key = f"{command.id}/".encode() + (serial % ATTEMPTS_MAX).to_bytes(4, "big")
            changes.append(StateChange(SPACE, key, _encode(serial, attempt)))
            serial += 1
        self._next[command.id] = serial

        def stored(result: None | Failure) -> None:
            connection.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        self._state.put(changes, stored)

    def _query(self, connection: ClientConnection, command: QueryAttempts) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        limit = max(1, min(command.limit, QUERY_MAX))

        def read(result: list[Attempt] | Failure, _: int) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(AttemptList(command.ticket, result[:limit], self._breakers.get(command.id, "closed")))

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


def _encode(serial: int, attempt: Attempt) -> bytes:
    members = asdict(attempt)
    members["answer"] = attempt.answer.decode("latin-1")
    return json.dumps({"serial": serial, **members}, separators=(",", ":")).encode()


def _decode(value: bytes) -> tuple[int, Attempt]:
    members = json.loads(value)
    serial = int(members.pop("serial"))
    members["answer"] = members["answer"].encode("latin-1")
    return serial, Attempt(**members)
