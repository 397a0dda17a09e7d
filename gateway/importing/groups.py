"""Consumer groups, with the configuration that the first broker has, and their positions.

The node has none of the cluster's messages, so a group begins with the first one that the node gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import orjson

from domain import address
from gateway.client.answer import integer
from gateway.importing.cluster import SourceBroker
from gateway.importing.row import Outcome, Row, done
from gateway.importing.server import Server, number, objects
from gateway.importing.topics import wanted
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

GROUP: Final = "group"
POSITION: Final = "position"
COPIED: Final = (
    "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable", "consumeMessageOrderly", "retryQueueNums",
    "retryMaxTimes", "notifyConsumerIdsChangedEnable", "groupRetryPolicy",
)  # fmt: skip
"""Fields of a SubscriptionGroupConfig that the node has too. The others concern brokers with slaves."""


def copy_groups(brokers: Sequence[SourceBroker], node: Server, dry: bool) -> Iterator[Row]:
    """Make the groups at the node. A group that is there keeps its configuration."""
    there = node.all_of(codes.GET_ALL_GROUPS, "Group", "subscriptionGroupTable")
    asked: list[tuple[str, Mapping[str, object], str]] = []
    for name, config, detail in _wanted(brokers):
        if name not in there:
            asked.append((name, config, detail))
            continue
        others = [field for field in COPIED if field in config and _differs(field, config, there[name])]
        if others:
            yield Row(GROUP, name, Outcome.KEPT, f"{', '.join(others)}: another value at the node")
        else:
            yield Row(GROUP, name, Outcome.SAME, detail)
    if dry:
        yield from (Row(GROUP, name, Outcome.MADE, detail) for name, _, detail in asked)
        return
    answers = node.ask_all([(codes.UPDATE_GROUP, {}, orjson.dumps(config)) for _, config, _ in asked])
    for (name, _, detail), answer in zip(asked, answers, strict=True):
        yield done(GROUP, name, Outcome.MADE, detail, answer)


def _wanted(brokers: Sequence[SourceBroker]) -> Iterator[tuple[str, dict[str, object], str]]:
    """(name, configuration, what there is to know) of each group of users."""
    names = sorted({name for broker in brokers for name in broker.groups if not address.is_system_group(name)})
    for name in names:
        all_of = [broker.groups[name] for broker in brokers if name in broker.groups]
        config: dict[str, object] = {str(field): all_of[0][field] for field in COPIED if field in all_of[0]}
        others = {field for each in all_of[1:] for field in COPIED if field in each and each[field] != config.get(field)}
        detail = f"brokers differ in {', '.join(sorted(others))}: {brokers[0].name} is taken" if others else ""
        yield name, {"groupName": name, **config}, detail


def _differs(field: str, wanted: Mapping[str, object], there: Mapping[str, object]) -> bool:
    """True when the node has the field with another value. A retry policy that is not written out is the default one."""
    mine, theirs = wanted.get(field), there.get(field)
    if field == "groupRetryPolicy":
        return _policy(mine) != _policy(theirs)
    return theirs is not None and mine != theirs


def _policy(found: object) -> object:
    if not isinstance(found, dict):
        return None
    return {name: each for name, each in found.items() if name != "type" and each is not None} or None


def copy_positions(brokers: Sequence[SourceBroker], node: Server, dry: bool) -> Iterator[Row]:
    """Give each group of the cluster a position at the end of each queue of the node, unless it has one there.

    A group with a position gets all that is sent to the node from now on, also what comes before its first member does.
    """
    known = set(wanted(brokers))
    offsets = {pair for broker in brokers for pair in broker.offsets if pair[0] in known}
    pairs = sorted(pair for pair in offsets if not address.is_system_group(pair[1]))
    topics = node.all_of(codes.GET_ALL_TOPICS, "Topic", "topicConfigTable")
    there = objects(node.table(codes.GET_ALL_OFFSETS).get("offsetTable"))
    for topic, group in pairs:
        name = f"{group} on {topic}"
        left = _unconsumed(brokers, topic, group)
        detail = f"{left:,} messages of the cluster are not consumed: the group has to consume them there" if left else ""
        if f"{topic}@{group}" in there:
            yield Row(POSITION, name, Outcome.SAME, detail)
        elif dry:
            yield Row(POSITION, name, Outcome.MADE, detail)
        elif topic not in topics:
            yield Row(POSITION, name, Outcome.LEFT, "the node has no such topic")
        else:
            yield done(POSITION, name, Outcome.MADE, detail, _begun(node, topic, group, number(topics[topic], "readQueueNums")))


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
    """Number of messages of the topic at the brokers behind the committed offsets of the group."""
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
