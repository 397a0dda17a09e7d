"""Positions of groups. The node has none of the cluster's messages, so a group begins with the first one that the node gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from domain import address
from gateway.client.answer import integer
from gateway.importing.cluster import SourceBroker
from gateway.importing.row import Outcome, Row, done
from gateway.importing.server import Server, number, objects
from gateway.importing.topics import wanted
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

KIND: Final = "position"


def copy_positions(brokers: Sequence[SourceBroker], node: Server, dry: bool) -> Iterator[Row]:
    """Give each group of the cluster a position at the end of each queue of the node, unless it has one there.

    A group with a position gets all that is sent to the node from now on, also what comes before its first member does.
    """
    known = set(wanted(brokers))
    pairs = sorted({pair for broker in brokers for pair in broker.offsets if pair[0] in known and _of_user(pair[1])})
    topics = objects(node.table(codes.GET_ALL_TOPICS).get("topicConfigTable"))
    there = objects(node.table(codes.GET_ALL_OFFSETS).get("offsetTable"))
    for topic, group in pairs:
        name = f"{group} on {topic}"
        left = _unconsumed(brokers, topic, group)
        detail = f"{left:,} messages of the cluster are not consumed: the group has to consume them there" if left else ""
        if f"{topic}@{group}" in there:
            yield Row(KIND, name, Outcome.SAME, detail)
        elif dry:
            yield Row(KIND, name, Outcome.MADE, detail)
        elif topic not in topics:
            yield Row(KIND, name, Outcome.LEFT, "the node has no such topic")
        else:
            yield done(KIND, name, Outcome.MADE, detail, _begun(node, topic, group, number(topics[topic], "readQueueNums")))


def _of_user(group: str) -> bool:
    return not address.is_system_group(group)


def _begun(node: Server, topic: str, group: str, queues: int) -> Frame:
    """Commit the end of each queue as the group's position. Returns an answer that is no success, else the last one."""
    at = [{"topic": topic, "queueId": str(queue)} for queue in range(queues)]
    ends = node.ask_all([(codes.GET_MAX_OFFSET, fields, b"") for fields in at])
    requests = []
    for fields, end in zip(at, ends, strict=True):
        if end.code != 0:
            return end
        requests.append(
            (codes.UPDATE_OFFSET, {**fields, "consumerGroup": group, "commitOffset": str(integer(end, "offset"))}, b"")
        )
    answers = node.ask_all(requests)
    return next((answer for answer in answers if answer.code != 0), answers[-1])


def _unconsumed(brokers: Sequence[SourceBroker], topic: str, group: str) -> int:
    """Messages of the topic that the brokers have and the group has not committed."""
    count = 0
    for broker in brokers:
        offsets = broker.offsets.get((topic, group), {})
        queues = range(number(broker.topics.get(topic, {}), "readQueueNums"))
        firsts, ends = (_edges(broker.server, code, topic, queues) for code in (codes.GET_MIN_OFFSET, codes.GET_MAX_OFFSET))
        for queue, first, end in zip(queues, firsts, ends, strict=True):
            count += max(end - max(offsets.get(queue, first), first), 0)
    return count


def _edges(server: Server, code: int, topic: str, queues: Sequence[int]) -> list[int]:
    """The first or the next offset of each queue; 0 for one that the server does not know."""
    answers = server.ask_all([(code, {"topic": topic, "queueId": str(queue)}, b"") for queue in queues])
    return [integer(answer, "offset") if answer.code == 0 else 0 for answer in answers]
