"""`GroupPositions` over the consumer offsets of the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.brokers.refusal import refusal
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

Done = Callable[[None | Failure], None]
_NONE: Final = {codes.QUERY_NOT_FOUND: ErrorCode.OFFSET_NOT_FOUND}


@final
class RocketmqPositions:
    """`GroupPositions`. A committed position is in the memory of the broker, which stores positions every 5 seconds."""

    def __init__(self, servers: Brokers, cluster: ClusterMap) -> None:
        self._servers = servers
        self._cluster = cluster

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        queue = self._queue(topic, queue_id)
        if queue is None:
            done(Failure(ErrorCode.OFFSET_NOT_FOUND, f"topic {topic} has no queue {queue_id}"))
            return

        def answered(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                done(answer)
                return
            text = (answer.fields() or {}).get("offset", "")
            if answer.code == codes.SUCCESS and text.isdigit() and len(text) < 20:
                done(int(text))
            else:
                done(refusal(queue.broker, answer, _NONE))

        fields = {**_fields(group, topic, queue), "setZeroIfNotFound": "false"}
        self._servers.ask(queue.broker, Request(codes.QUERY_OFFSET, fields), answered)

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """GroupPositions.commit."""
        self._each(offsets, done, lambda queue, topic, offset: Request(
            codes.UPDATE_OFFSET, {**_fields(group, topic, queue), "commitOffset": str(offset)}
        ))  # fmt: skip

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.reset, as mqadmin does it: brokers give messages from there on. Leases end by their time."""
        self._each(offsets, done, lambda queue, topic, offset: Request(
            codes.RESET_OFFSET,
            {
                "topic": topic, "group": group, "timestamp": "-1", "isForce": "true", "queueId": str(queue.queue_id),
                "offset": str(offset), "bname": queue.broker,
            },
        ))  # fmt: skip

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """GroupPositions.drop_group: every broker deletes the group and its positions."""
        brokers = list(self._cluster.brokers)
        request = Request(codes.DELETE_GROUP, {"groupName": group, "cleanOffset": "true"})
        self._servers.ask_all([(broker, request) for broker in brokers], done)

    def _each(
        self,
        offsets: Sequence[tuple[str, int, int]],
        done: Done | None,
        request: Callable[[BrokerQueue, str, int], Request],
    ) -> None:
        asked: list[tuple[str, Request]] = []
        for topic, queue_id, offset in offsets:
            queue = self._queue(topic, queue_id)
            if queue is not None:
                asked.append((queue.broker, request(queue, topic, offset)))
        self._servers.ask_all(asked, done or (lambda _: None))

    def _queue(self, topic: str, queue_id: int) -> BrokerQueue | None:
        queues = self._cluster.queues(topic)
        return queues[queue_id] if 0 <= queue_id < len(queues) else None


def _fields(group: str, topic: str, queue: BrokerQueue) -> dict[str, str]:
    return {"consumerGroup": group, "topic": topic, "queueId": str(queue.queue_id), "bname": queue.broker}
