"""Topics and groups: stored as state, and kept decoded in memory for the hot path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, final

import msgspec

from domain.delivery.retry import DEFAULT, RetryPolicy
from domain.errors import Failure
from domain.store.store_ports import StateChange
from domain.topic.topic import Durability, Group, Topic
from store.log.open_batch import Done
from store.queue.entries import TopicEntries
from store.queue.settings import TopicSettings, created_at
from store.state.view import GROUP, TOPIC, Append, failure_only

Keys = Callable[[str, bytes, bytes, int], list[bytes]]
AppendMade = Callable[[Callable[[], Sequence[StateChange]], Done | None], None]

_DEFAULTS: Final = asdict(Topic(""))
_STORED: Final = tuple(name for name in _DEFAULTS if name != "name")
_NO_ATTRIBUTES: Final[dict[str, str]] = {}
SHARED_MAX: Final = 4_096
"""Configurations that are known as shared; with more, later ones may be in memory several times."""
RECENT_MAX: Final = 16_384
"""Topics that are kept decoded."""


def encode_topic(topic: Topic) -> bytes:
    """Topic -> state value: JSON with sorted keys, without the name, which is the key, and without fields at their defaults.

    A million of them are kept in memory: the defaults of Topic are part of the format.
    """
    fields = {name: value for name in _STORED if (value := getattr(topic, name)) != _DEFAULTS[name]}
    if "durability" in fields:
        fields["durability"] = topic.durability.value
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def decode_topic(name: str, value: bytes) -> Topic:
    """State value -> Topic; ignores fields of a later version."""
    fields: dict[str, Any] = msgspec.json.decode(value)
    known = {field: value for field, value in fields.items() if field in _DEFAULTS}
    known["name"] = name
    if "type" in known:
        known["type"] = sys.intern(known["type"])
    if not known.get("attributes"):
        known["attributes"] = _NO_ATTRIBUTES
    if "durability" in known:
        known["durability"] = Durability(known["durability"])
    return Topic(**known)


def encode_group(group: Group) -> bytes:
    """Group -> state value: JSON with sorted keys."""
    # `asdict` copies every value deeply: ten times the work.
    fields = {name: getattr(group, name) for name in Group.__dataclass_fields__}
    fields["retry"] = {name: getattr(group.retry, name) for name in RetryPolicy.__dataclass_fields__}
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def decode_group(value: bytes) -> Group:
    """State value -> Group; ignores fields of a later version."""
    fields: dict[str, Any] = msgspec.json.decode(value)
    known = {name: fields[name] for name in Group.__dataclass_fields__ if name in fields}
    if "retry" in known:
        stored = known["retry"]
        policy = {name: stored[name] for name in RetryPolicy.__dataclass_fields__ if name in stored}
        policy["steps_ms"] = tuple(policy.get("steps_ms", DEFAULT.steps_ms))
        known["retry"] = RetryPolicy(**policy)
    return Group(**known)


def _behind(name: str) -> bytes:
    """The first key behind that of `name`; "": the first of all."""
    return name.encode() + b"\0" if name else b""


@final
class SharedSettings:
    """Configurations of topics, each of which is in memory once: a million topics have few different ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes | None], TopicSettings] = {}

    def of(self, value: bytes) -> tuple[TopicSettings, int]:
        """State value -> (configuration, time of creation)."""
        begin, end = created_at(value)
        if not end:
            return self.get(value, None), 0
        return self.get(value[:begin], value[end:]), int(value[begin:end])

    def get(self, head: bytes, tail: bytes | None) -> TopicSettings:
        """Configuration with the state value `head`, or `head`, a time of creation, `tail`."""
        known = self._known.get((head, tail))
        if known is None:
            if len(self._known) >= SHARED_MAX:
                self._known.clear()
            topic = decode_topic("", head if tail is None else b"%b0%b" % (head, tail))
            known = self._known[head, tail] = TopicSettings(topic, head, tail)
        return known


@final
class Catalogue:
    """The `Metadata` port.

    _entries   the topics, with their configurations
    _recent    name -> topic that was asked for
    _followers the functions given to `follow_topics`
    """

    def __init__(
        self,
        durability: Durability,
        entries: TopicEntries,
        append: Append,
        append_made: AppendMade,
        drop_topic: Callable[[str], list[StateChange]],
        keys: Keys,
        unapplied: Collection[tuple[str, bytes]],
    ) -> None:
        """`append_made(make, done)` appends the changes that `make` returns, and calls it only when the store takes them.

        `drop_topic(name)` removes a topic's queues and leases, and returns the changes for the log.
        `keys(space, prefix, start, limit)` are the sorted keys of the state: names in UTF-8.
        `unapplied`: (space, key) of changes that are accepted and not durable yet.
        """
        self.settings = SharedSettings()
        self._entries = entries
        self._durability = durability
        self._append = append
        self._append_made = append_made
        self._drop_topic = drop_topic
        self._keys = keys
        self._unapplied = unapplied
        self._recent: dict[str, Topic] = {}
        self._groups: dict[str, Group] = {}
        self._followers: list[Callable[[str], None]] = []

    def topic(self, name: str) -> Topic | None:
        """A topic by its name; None: it is not configured."""
        known = self._recent.get(name)
        if known is not None:
            return known
        entry = self._entries.topics.get(name)
        if entry is None or entry.settings is None:
            return None
        topic = replace(entry.settings.topic, name=entry.name, created_ms=entry.created_ms)
        if len(self._recent) >= RECENT_MAX:
            self._recent.clear()
        self._recent[entry.name] = topic
        return topic

    def topics(self) -> list[Topic]:
        """Metadata.topics."""
        return [topic for name in self._entries.topics.names() if (topic := self.topic(name)) is not None]

    def topic_names(self) -> list[str]:
        """Metadata.topic_names."""
        topics = self._entries.topics
        return [name for name in self._entries.topics.names() if topics[name].settings is not None]

    def lite_topics(self) -> list[Topic]:
        """Metadata.lite_topics."""
        found = [self.topic(name) for name in sorted(self._entries.lite_topics)]
        return [topic for topic in found if topic is not None and topic.type == "LITE"]

    def topics_after(self, name: str, limit: int) -> list[Topic]:
        """At most `limit` topics by name, from the one behind `name` on."""
        found: list[Topic] = []
        names = self._entries.topics.names_after(name)
        while names:
            for each in names:
                topic = self.topic(each)
                if topic is not None:
                    found.append(topic)
                    if len(found) == limit:
                        return found
            names = self._entries.topics.names_after(names[-1])
        return found

    def topic_count(self) -> int:
        """Number of topics that are configured."""
        return self._entries.configured

    def put_topic(self, topic: Topic, done: Callable[[None | Failure], None]) -> None:
        """Create or replace a topic. Writes nothing when it is the same already."""
        if (TOPIC, topic.name.encode()) not in self._unapplied and self.topic(topic.name) == topic:
            done(None)
            return
        self._append([StateChange(TOPIC, topic.name.encode(), encode_topic(topic))], failure_only(done))

    def delete_topic(self, name: str, done: Callable[[None | Failure], None]) -> None:
        """Delete a topic and the index of its messages. Its queues are empty from this call on, unless it is refused."""
        gone = StateChange(TOPIC, name.encode(), None)
        self._append_made(lambda: [gone, *self._drop_topic(name)], failure_only(done))

    def follow_topics(self, changed: Callable[[str], None]) -> None:
        """Metadata.follow_topics."""
        self._followers.append(changed)

    def group(self, name: str) -> Group | None:
        """A group by its name; None: it is not configured."""
        return self._groups.get(name)

    def learn_groups(self, names: Iterable[str], done: Callable[[None | Failure], None]) -> None:
        """Metadata.learn_groups: all are in memory."""
        done(None)

    def groups(self) -> list[Group]:
        """All groups, by name."""
        return [self._groups[name] for name in sorted(self._groups)]

    def groups_after(self, name: str, limit: int) -> list[Group]:
        """At most `limit` groups by name, from the one behind `name` on."""
        names = [key.decode() for key in self._keys(GROUP, b"", _behind(name), limit)]
        return [self._groups[each] for each in names]

    def put_group(self, group: Group, done: Callable[[None | Failure], None]) -> None:
        """Create or replace a group. Writes nothing when it is the same already."""
        if (GROUP, group.name.encode()) not in self._unapplied and self._groups.get(group.name) == group:
            done(None)
            return
        self._append([StateChange(GROUP, group.name.encode(), encode_group(group))], failure_only(done))

    def default_durability(self) -> Durability:
        """The durability level of new topics."""
        return self._durability

    def apply(self, change: StateChange, base: int) -> None:
        """Apply a durable change of a topic or group, whose record is in the log segment at `base`."""
        name = change.key.decode()
        if change.space == GROUP:
            if change.value is None:
                self._groups.pop(name, None)
            else:
                self._groups[name] = decode_group(change.value)
            return
        self.configure(change.key, change.value, base)

    def configure(self, key: bytes, value: bytes | None, base: int) -> None:
        """Apply a durable change of a topic, whose record is in the log segment at `base`."""
        name = key.decode()
        if self._recent:
            self._recent.pop(name, None)
        if value is None:
            self._entries.configure(name, None, 0, 0)
        else:
            settings, created_ms = self.settings.of(value)
            self._entries.configure(name, settings, created_ms, base)
        for changed in self._followers:
            changed(name)
