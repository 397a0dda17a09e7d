"""Topics: one of the node's has as many queues as the brokers of the cluster have together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from domain import address, limits
from gateway.importing.cluster import SourceBroker
from gateway.importing.row import Outcome, Row, done
from gateway.importing.server import Server, number
from protocols.remoting import codes

TYPE: Final = "message.type"
PLAIN_TYPE: Final = "NORMAL"
KIND: Final = "topic"


class Wanted(NamedTuple):
    """A topic as it should be.

    read, write   queues that consumers read and producers write
    perm          permission, as the brokers have it
    notes         what of it cannot be copied
    """

    name: str
    read: int
    write: int
    perm: int
    order: bool
    kind: str
    notes: list[str]


def wanted(brokers: Sequence[SourceBroker]) -> dict[str, Wanted]:
    """The topics of users, by name: not those of the system, of brokers and clusters, nor retry and dead-letter topics."""
    found: dict[str, Wanted] = {}
    own = {broker.name for broker in brokers}
    for broker in brokers:
        for name, config in sorted(broker.topics.items()):
            if name in own or address.is_system_topic(name) or address.is_derived_topic(name):
                continue
            found[name] = _joined(found.get(name), broker, name, config)
    return dict(sorted(found.items()))


def _joined(before: Wanted | None, broker: SourceBroker, name: str, config: Mapping[str, object]) -> Wanted:
    attributes = config.get("attributes")
    given = {str(key): str(value) for key, value in attributes.items()} if isinstance(attributes, dict) else {}
    kind = given.pop(TYPE, PLAIN_TYPE) or PLAIN_TYPE
    read, write = number(config, "readQueueNums"), number(config, "writeQueueNums")
    perm, order = number(config, "perm", 6) & 6, config.get("order") is True
    notes = [f"attribute {key}={value} is not copied" for key, value in sorted(given.items())]
    if before is None:
        return Wanted(name, read, write, perm, order, kind, notes)
    notes = list(dict.fromkeys(before.notes + notes))
    if kind != before.kind:
        notes.append(f"type {kind} at {broker.name}, {before.kind} at another broker: {before.kind} is taken")
    if perm != before.perm:
        notes.append(f"permission {perm} at {broker.name}, {before.perm} at another broker: both together are taken")
    return Wanted(name, before.read + read, before.write + write, before.perm | perm, before.order or order, before.kind, notes)


def copy_topics(brokers: Sequence[SourceBroker], cluster: str, node: Server, dry: bool) -> Iterator[Row]:
    """Make the topics at the node. A topic that is there keeps its queues and gets more when the cluster has more."""
    there = node.all_of(codes.GET_ALL_TOPICS, "Topic", "topicConfigTable")
    asked: list[tuple[Wanted, Outcome, str]] = []
    for name, topic in wanted(brokers).items():
        if name == cluster:
            continue
        row = _judged(topic, there.get(name))
        if row.outcome in (Outcome.MADE, Outcome.CHANGED):
            asked.append((topic, row.outcome, row.detail))
        else:
            yield row
    if dry:
        yield from (Row(KIND, topic.name, outcome, detail) for topic, outcome, detail in asked)
        return
    answers = node.ask_all([(codes.UPDATE_TOPIC, _fields(topic, there.get(topic.name)), b"") for topic, _, _ in asked])
    for (topic, outcome, detail), answer in zip(asked, answers, strict=True):
        yield done(KIND, topic.name, outcome, detail, answer)


def _judged(topic: Wanted, there: Mapping[str, object] | None) -> Row:
    queues = f"{topic.read} queues" if topic.read == topic.write else f"{topic.read} queues read, {topic.write} written"
    detail = "; ".join([queues, *([topic.kind] if topic.kind != PLAIN_TYPE else []), *topic.notes])
    if max(topic.read, topic.write) > limits.QUEUES_PER_TOPIC_MAX:
        most = limits.QUEUES_PER_TOPIC_MAX
        return Row(KIND, topic.name, Outcome.LEFT, f"its brokers have {topic.read:,} queues together, a node has {most:,}")
    if there is None:
        return Row(KIND, topic.name, Outcome.MADE, detail)
    attributes = there.get("attributes")
    kind = str(attributes.get(TYPE, PLAIN_TYPE)) if isinstance(attributes, dict) else PLAIN_TYPE
    if kind != topic.kind:
        return Row(KIND, topic.name, Outcome.LEFT, f"its type is {kind} at the node and {topic.kind} in the cluster")
    read, write = number(there, "readQueueNums"), number(there, "writeQueueNums")
    if read < topic.read or write < topic.write:
        return Row(KIND, topic.name, Outcome.CHANGED, f"{read} queues before; {detail}")
    if (number(there, "perm"), there.get("order") is True) != (topic.perm, topic.order):
        return Row(KIND, topic.name, Outcome.KEPT, "permission or order are others at the node")
    if (read, write) != (topic.read, topic.write):
        return Row(KIND, topic.name, Outcome.KEPT, f"it has {read} queues at the node; {detail}")
    return Row(KIND, topic.name, Outcome.SAME, "; ".join(topic.notes))


def _fields(topic: Wanted, there: Mapping[str, object] | None) -> dict[str, str]:
    before = there or {}
    return {
        "topic": topic.name,
        "defaultTopic": address.TEMPLATE_TOPIC,
        "readQueueNums": str(max(topic.read, number(before, "readQueueNums"))),
        "writeQueueNums": str(max(topic.write, number(before, "writeQueueNums"))),
        "perm": str(number(before, "perm", topic.perm)),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "true" if topic.order else "false",
        "attributes": f"+{TYPE}={topic.kind}",
    }
