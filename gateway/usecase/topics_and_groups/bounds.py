"""Bounds of the queues of one topic: of one queue or of all."""

from __future__ import annotations

from functools import partial
from typing import final

from domain.admin.topic import Bounds, QueryBounds
from domain.errors import Failure
from domain.event import Refused
from domain.replication.reads import LogReads
from domain.store.store_ports import MessageLog
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps


def answer_bounds(
    log: MessageLog | LogReads, questions: LongQuestions, connection: ClientConnection, command: QueryBounds, topic: Topic
) -> None:
    """Answer with the bounds of the queue of `command`, or, when that is below 0, of all queues of `topic`: in slices."""
    one = command.queue_id
    wanted = range(one, one + 1) if one >= 0 else range(max(topic.read_queues, topic.write_queues))
    asking = _AllBounds(log, connection, command, topic.created_ms, wanted)
    if len(wanted) > 1:
        questions.ask(connection, asking.steps())
    else:
        for _ in asking.steps():
            pass


@final
class _AllBounds:
    """One question. Its list is made queue by queue: nothing is left to do with all of them in the last turn.

    _queues   (queue id, first offset, next offset) of the queues that have answered
    _open     queues that have not; one more while there are some to ask
    """

    def __init__(
        self,
        log: MessageLog | LogReads,
        connection: ClientConnection,
        command: QueryBounds,
        epoch: int,
        wanted: range,
    ) -> None:
        self._log = log
        self._connection = connection
        self._command = command
        self._epoch = epoch
        self._wanted = wanted
        self._queues: list[tuple[int, int, int]] = [(-1, 0, 0)] * len(wanted)
        self._failure: Failure | None = None
        self._open = 1

    def steps(self) -> Steps:
        """Ask about each queue, and answer."""
        for at, queue_id in enumerate(self._wanted):
            self._open += 1
            self._log.bounds(self._command.topic, queue_id, partial(self._bounded, at, queue_id))
            if at % STEP_ITEMS == STEP_ITEMS - 1:
                yield
        self._count_down()

    def _bounded(self, at: int, queue_id: int, result: tuple[int, int] | Failure) -> None:
        if isinstance(result, Failure):
            self._failure = self._failure or result
        else:
            self._queues[at] = (queue_id, *result)
        self._count_down()

    def _count_down(self) -> None:
        self._open -= 1
        if self._open:
            return
        ticket = self._command.ticket
        failure = self._failure
        self._connection.answer(Bounds(ticket, self._queues, self._epoch) if failure is None else Refused(ticket, failure))
