"""Changing a topic in part: fields that are not named stay as they are."""

from __future__ import annotations

from domain.admin.topic import ChangeTopic, PutTopic, TopicChange
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.store.store_ports import Metadata
from domain.topic import attribute
from domain.topic.topic import PERM_READ_WRITE, Durability, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import UseCase, Verbs

_FIELDS = frozenset(("message.type", "durability"))
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED")


class TopicChanging:
    """The verb ChangeTopic, which merges the change and carries it out by the PutTopic of `topics`."""

    def __init__(self, metadata: Metadata, topics: UseCase) -> None:
        self._metadata = metadata
        self._put = topics.verbs[PutTopic]
        self.verbs: Verbs = {ChangeTopic: self._change}

    def _change(self, connection: ClientConnection, command: ChangeTopic) -> None:
        change = command.change
        topic = self.merged(change)
        if isinstance(topic, Failure):
            connection.answer(Refused(command.ticket, topic))
        else:
            self._put(connection, PutTopic(command.ticket, topic))

    def merged(self, change: TopicChange) -> Topic | Failure:
        """The topic with the change. ARGUMENT_ILLEGAL for an attribute, type or durability that is not known or allowed."""
        known = self._metadata.topic(change.name)
        before = known or Topic(change.name, durability=self._metadata.default_durability())
        kept = attribute.of_topic(before)
        kept.update(change.attributes)
        for name in change.dropped:
            kept.pop(name, None)
        kind = kept.pop("message.type", "NORMAL")
        level = kept.pop("durability", before.durability.value)
        if kind not in TYPES:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"message.type {kind!r} is none of {', '.join(TYPES)}")
        if known is not None and kind != known.type and "LITE" in (kind, known.type):
            text = f"topic {change.name} is of type {known.type}: to make it {kind}, delete it first, its queues are others"
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
        fault = attribute.unknown(name for name in change.attributes if name not in _FIELDS) or attribute.faulty(kept)
        if fault is not None:
            return fault
        # A node without replicas does not promise what only they can keep.
        replicated = before.durability.waits_for_replicas
        levels = {each.value: each for each in Durability if replicated or not each.waits_for_replicas}
        if level not in levels:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"durability {level!r} is none of {', '.join(levels)}")
        retention_ms = int(kept.pop(attribute.RETENTION_MS, "0"))
        retention_bytes = int(kept.pop(attribute.RETENTION_BYTES, "0"))
        return Topic(
            change.name,
            before.read_queues if change.read_queues is None else change.read_queues,
            before.write_queues if change.write_queues is None else change.write_queues,
            before.perm if change.perm is None else change.perm & (PERM_READ_WRITE | 8),
            kind,
            levels[level],
            retention_ms,
            retention_bytes,
            before.order if change.order is None else change.order,
            before.sys_flag if change.sys_flag is None else change.sys_flag,
            kept,
        )
