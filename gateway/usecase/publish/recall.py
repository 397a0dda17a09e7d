"""Recall: a delayed message that is not due yet is deleted by the handle that its sender was given."""

from __future__ import annotations

from domain.delivery import recall
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import Clock
from domain.transaction import Recalled, RecallMessage, Timers
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.topics_and_groups.topics import Topics


class Recalling:
    """The verb RecallMessage.

    broker   the only broker whose handles are taken; "": the store knows several, and refuses handles of others
    """

    def __init__(self, timers: Timers, topics: Topics, broker: str, clock: Clock) -> None:
        self._timers = timers
        self._topics = topics
        self._broker = broker
        self._clock = clock
        self.verbs: Verbs = {RecallMessage: self._recall}

    def _recall(self, connection: ClientConnection, command: RecallMessage) -> None:
        found = recall.parse(command.handle)
        failure: Failure | None = None
        if self._topics.find(command.topic) is None:
            failure = Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist")
        elif found is None:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "the recall handle cannot be read")
        elif found.topic != command.topic or (self._broker and found.broker != self._broker):
            text = f"the recall handle is for topic {found.topic} of broker {found.broker}"
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
        elif found.due_ms <= self._clock.wall_ms():
            failure = Failure(ErrorCode.MESSAGE_NOT_FOUND, f"message {found.message_id} is due: it cannot be recalled any more")
        if found is None or failure is not None:
            assert failure is not None
            connection.answer(Refused(command.ticket, failure))
            return
        message_id = found.message_id

        recalled = answered(connection, Recalled(command.ticket, message_id))
        self._timers.recall(found, recalled)
