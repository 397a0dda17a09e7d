"""Suspension: a consumer that is not ready for a lite topic gives its message back, which does not count as an attempt."""

from __future__ import annotations

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.event import Extended, Refused
from domain.message.receipt import Receipt
from domain.store.store_ports import Leases
from domain.topic import lite
from domain.topic.lite import LiteQueues, SuspendLite
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs


class LiteSuspension:
    """The verb SuspendLite."""

    def __init__(self, leases: Leases, queues: LiteQueues) -> None:
        self._leases = leases
        self._queues = queues
        self.verbs: Verbs = {SuspendLite: self._suspend}

    def _suspend(self, connection: ClientConnection, command: SuspendLite) -> None:
        if not 0 <= command.invisible_ms <= limits.INVISIBLE_MS_MAX:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is at least 0 and at most 12 hours")
            connection.answer(Refused(command.ticket, failure))
            return
        queue = lite.queue_name(command.topic, command.lite)

        def extended(result: list[Receipt | Failure] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
                return
            if isinstance(result[0], Receipt):
                self._queues.uncount(command.group, queue, command.receipt.queue_offset)
            connection.answer(Extended(command.ticket, result))

        self._leases.extend(command.group, queue, [command.receipt], command.invisible_ms, extended)
