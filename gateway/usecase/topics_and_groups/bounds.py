"""Bounds of the queues of one topic: of one queue or of all."""

from __future__ import annotations

from domain.admin.topic import Bounds, QueryBounds
from domain.errors import Failure
from domain.event import Refused
from domain.replication.reads import LogReads
from domain.store.store_ports import MessageLog
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.fan_in import FanIn


def answer_bounds(log: MessageLog | LogReads, connection: ClientConnection, command: QueryBounds, topic: Topic) -> None:
    """Answer with the bounds of the queue of `command`, or, when that is below 0, of all queues of `topic`."""

    def bounded(found: dict[tuple[str, int], tuple[int, int]], failure: Failure | None) -> None:
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
        else:
            queues = [(queue_id, *bounds) for (_, queue_id), bounds in found.items()]
            connection.answer(Bounds(command.ticket, queues, topic.created_ms))

    wanted = range(max(topic.read_queues, topic.write_queues)) if command.queue_id < 0 else (command.queue_id,)
    FanIn(log.bounds, bounded).start([(command.topic, queue_id) for queue_id in wanted])
