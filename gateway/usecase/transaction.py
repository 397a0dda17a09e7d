"""Transactions: decisions of producers, and the question to one of them when none comes.

Half messages are sent like any other and kept out of sight by the store, which also knows when to ask again.
"""

from __future__ import annotations

from collections.abc import Mapping

from domain import property as properties
from domain.command import Command
from domain.errors import Failure
from domain.event import Done, Refused
from domain.record import Record
from domain.transaction import COMMIT, UNKNOWN, CheckTransaction, EndTransaction, Transactions
from gateway.session import Session
from gateway.usecase.handler import Verb
from gateway.usecase.members import Registry


class Deciding:
    """The EndTransaction verb; as a TransactionListener it asks the producers of a group in turn, another one each time."""

    def __init__(self, transactions: Transactions, registry: Registry) -> None:
        self._transactions = transactions
        self._registry = registry

    def verbs(self) -> Mapping[type[Command], Verb]:
        """EndTransaction."""
        return {EndTransaction: self._end}

    def _end(self, session: Session, command: EndTransaction) -> None:
        def ended(result: None | Failure) -> None:
            if command.wait:
                session.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        if command.outcome == UNKNOWN:
            ended(None)
            return
        self._transactions.end(
            command.group, command.message_id, command.offset, command.position, command.outcome == COMMIT, ended
        )

    def undecided(self, group: str, record: bytes, check: int) -> None:
        """Ask one producer of the group that is here; the store asks again later when none is, or none answers."""
        producers = self._registry.producers(group)
        if not producers:
            return
        view = Record(record)
        client_id = sorted(producers)[(view.queue_offset + check) % len(producers)]
        message_id = properties.text(view.properties, properties.UNIQ_KEY)
        producers[client_id].answer(CheckTransaction(None, client_id, group, message_id, record))
