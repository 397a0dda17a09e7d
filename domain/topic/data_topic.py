"""Topics of CoAP's publish-subscribe draft: a configuration for the data on one path (draft-ietf-core-coap-pubsub-20).

The name of a topic is the path: its data is the latest value there, and what is published is a message on the path.

half created --first value--> fully created --value removed--> half created        each --deleted, expired--> gone
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from domain.address import is_path

RESOURCE_TYPE: Final = "core.ps.data"
"""The resource type of the data of every topic."""
TOPICS_MAX: Final = 10_000
"""Topics of one store group; one creator, a user or without access control a host, may have half of them."""
RECORDS_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of the records of all topics; one creator may have half of them."""
NAME_BYTES_MAX: Final = 512
"""With TYPE_BYTES_MAX, small enough for a representation without `initialize` to fit into one datagram."""
TYPE_BYTES_MAX: Final = 128
INITIALIZE_BYTES_MAX: Final = 4_096
OBSERVER_CHECK_S: Final = 86_400
OBSERVER_CHECK_S_MIN: Final = 30
"""What is below is raised to it: each check is a confirmable message to each subscriber."""
NUMBER_MAX: Final = 1 << 53
"""The largest number in a configuration: JSON and floating point hold it exactly."""
_FORBIDDEN: Final = frozenset("\x00\x01\x02")


@dataclass(frozen=True, slots=True)
class TopicProperties:
    """The properties that a client has given to a topic. None stands for a property that the client has not given.

    type              what the data is, as text
    expires_ms        epoch ms at which the topic is deleted
    observer_check_s  seconds after which a silent subscriber is asked whether it is still there
    """

    content_format: int | None = None
    type: str | None = None
    expires_ms: int | None = None
    max_subscribers: int | None = None
    observer_check_s: int | None = None
    initialize: bytes | None = None


@dataclass(frozen=True, slots=True)
class DataTopic:
    """One topic.

    id           names its two resources, /ps/{id} and /ps/data/{id}
    name         the path
    user         who has made it; "": access was not controlled
    host         network of who has made it
    """

    id: str
    name: str
    user: str
    host: str
    created_ms: int
    given: TopicProperties

    @property
    def check_s(self) -> int:
        """`observer_check_s`, or its default."""
        given = self.given.observer_check_s
        return OBSERVER_CHECK_S if given is None else given

    @property
    def creator(self) -> str:
        """Whom the topic counts for."""
        return f"user {self.user}" if self.user else f"host {self.host}"

    def is_over(self, wall_ms: int) -> bool:
        """True when the topic has expired."""
        return self.given.expires_ms is not None and self.given.expires_ms <= wall_ms


_PROPERTIES: Final = tuple(each.name for each in fields(TopicProperties))


def encode(topic: DataTopic) -> bytes:
    """The record of a topic: JSON."""
    table: dict[str, Any] = {"id": topic.id, "name": topic.name, "created_ms": topic.created_ms}
    table.update({name: value for name, value in (("user", topic.user), ("host", topic.host)) if value})
    for name in _PROPERTIES:
        value = getattr(topic.given, name)
        if value is not None:
            table[name] = b64encode(value).decode() if name == "initialize" else value
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()


def decode(record: bytes) -> DataTopic:
    """The topic of a record that `encode` has made. Members that are not known are of a later version, and are passed over."""
    table = json.loads(record)
    given = {name: table[name] for name in _PROPERTIES if name in table}
    if "initialize" in given:
        given["initialize"] = b64decode(given["initialize"])
    known = TopicProperties(**given)
    return DataTopic(table["id"], table["name"], table.get("user", ""), table.get("host", ""), table["created_ms"], known)


def is_name(name: str) -> bool:
    """True for a path that a topic may have: no level is `.` or `..`, no wildcards, NAME_BYTES_MAX, not the server's own."""
    levels = name.split("/")
    return (
        is_path(name)
        and len(name.encode()) <= NAME_BYTES_MAX
        and levels[0] != "$SYS"
        and not any(level in (".", "..") for level in levels)
        and not _FORBIDDEN & set(name)
    )


def fault_of(given: TopicProperties) -> str:
    """What is wrong with properties by themselves; "" for nothing."""
    if given.initialize is not None:
        if given.content_format is None:
            return "initialize needs topic-content-format"
        if len(given.initialize) > INITIALIZE_BYTES_MAX:
            return f"initialize has at most {INITIALIZE_BYTES_MAX} bytes"
    if given.content_format is not None and not 0 <= given.content_format <= 0xFFFF:
        return "topic-content-format is a number up to 65,535"
    if given.type is not None and len(given.type.encode()) > TYPE_BYTES_MAX:
        return f"topic-type has at most {TYPE_BYTES_MAX} bytes"
    if given.observer_check_s == 0:
        return "observer-check is greater than 0"
    if any(
        not 0 <= (number or 0) <= NUMBER_MAX for number in (given.expires_ms, given.max_subscribers, given.observer_check_s)
    ):
        return "a number is out of its range"
    return ""


def kept(given: TopicProperties) -> TopicProperties:
    """The properties as they are stored: `observer_check_s` is at least OBSERVER_CHECK_S_MIN."""
    if given.observer_check_s is None or given.observer_check_s >= OBSERVER_CHECK_S_MIN:
        return given
    return replace(given, observer_check_s=OBSERVER_CHECK_S_MIN)


def patched(old: TopicProperties, given: TopicProperties) -> TopicProperties:
    """`old` with the properties that are given; the others stay."""
    return replace(old, **{name: value for name in _PROPERTIES if (value := getattr(given, name)) is not None})


def matches(topic: DataTopic, name: str, identity: str, given: TopicProperties, prefixes: bool) -> bool:
    """True when the topic has each of these values; "" and None: any.

    `prefixes`: a name or type that ends in `*` stands for all that begin so.
    """
    if (name and not _fits(topic.name, name, prefixes)) or (identity and topic.id != identity):
        return False
    if given.type is not None and not _fits(topic.given.type or "", given.type, prefixes):
        return False
    known = replace(topic.given, observer_check_s=topic.check_s)
    return all(getattr(given, each) in (None, getattr(known, each)) for each in _PROPERTIES if each != "type")


def _fits(value: str, wanted: str, prefixes: bool) -> bool:
    return value.startswith(wanted[:-1]) if prefixes and wanted.endswith("*") else value == wanted
