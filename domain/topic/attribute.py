"""Attributes of topics and groups that the gateway interprets, and their legal values.

RocketMQ's TopicAttributes, SubscriptionGroupAttributes and AttributeUtil.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from domain.errors import ErrorCode, Failure
from domain.topic.topic import Topic

_LONG_MAX: Final = (1 << 63) - 1
RETENTION_MS: Final = "retention.ms"
"""Of a topic: age in ms at which its messages are deleted; 0: the default of the store."""
RETENTION_BYTES: Final = "retention.bytes"
"""Of a topic: bytes of stored messages above which the oldest are deleted; 0: no bound."""
DEDUPLICATION: Final = "deduplication"
"""Of a topic: a message is stored once for each id that producers give (BY_ID), or each source and id of events (BY_EVENT)."""
BY_ID: Final = "id"
BY_EVENT: Final = "event"
EXPIRATION: Final = "lite.topic.expiration"
"""Of a topic: minutes without a message after which a lite topic is deleted; below 1: never."""
_MONTH_MINUTES: Final = 30 * 24 * 60
BIND_TOPIC: Final = "lite.bind.topic"
MODEL: Final = "lite.sub.model"
RESET_EXCLUSIVE: Final = "lite.sub.reset.offset.exclusive"
RESET_UNSUBSCRIBE: Final = "lite.sub.reset.offset.unsubscribe"
CLIENT_QUOTA: Final = "lite.sub.client.quota"
EVENTS_MAX: Final = "lite.sub.client.max.event.cnt"
WILDCARD: Final = "lite.sub.wildcard"


class AttributeType(NamedTuple):
    """The legal values of an attribute: one of `words`, or a whole number from `low` to `high`, or with neither any text."""

    low: int = 0
    high: int = -1
    words: tuple[str, ...] = ()

    def fault(self, value: str) -> str:
        """What is wrong with `value`, "" when it is legal."""
        if self.words:
            return "" if value in self.words else f"is none of {', '.join(self.words)}"
        if self.high < self.low:
            return "" if 0 < len(value) <= 256 else "has no text, or more than 256 characters"
        digits = value.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or not self.low <= int(value) <= self.high:
            return f"is no whole number from {self.low} to {self.high}"
        return ""


_FLAG: Final = AttributeType(words=("true", "false"))
_TEXT: Final = AttributeType()
GROUP: Final[Mapping[str, AttributeType]] = {
    "priority.factor": AttributeType(0, 100),
    BIND_TOPIC: AttributeType(),
    MODEL: AttributeType(words=("Shared", "Exclusive")),
    RESET_EXCLUSIVE: _FLAG,
    RESET_UNSUBSCRIBE: _FLAG,
    CLIENT_QUOTA: AttributeType(-1, _LONG_MAX),
    EVENTS_MAX: AttributeType(10, _LONG_MAX),
    WILDCARD: AttributeType(),
}
"""Attributes of groups that the gateway interprets. Others are kept as text."""
TOPIC: Final[Mapping[str, AttributeType]] = {
    EXPIRATION: AttributeType(-1, _MONTH_MINUTES),
    RETENTION_MS: AttributeType(0, _LONG_MAX // 1_000_000),
    RETENTION_BYTES: AttributeType(0, _LONG_MAX),
    DEDUPLICATION: AttributeType(words=("none", BY_ID, BY_EVENT)),
    "reserve.time": AttributeType(-1, _LONG_MAX),
    "queue.type": AttributeType(words=("SimpleCQ", "BatchCQ")),
    "cleanup.policy": AttributeType(words=("DELETE",)),
}
"""Attributes that a topic may have besides its type and its durability. Any other is refused.

Compacted topics do not exist: `cleanup.policy` is DELETE. Batches are stored message by message whatever the queue type.
The reserve time has no effect: RocketMQ's brokers use it for tiered storage only. RETENTION_MS and RETENTION_BYTES are kept as
fields of the topic.
"""


def altered(known: Mapping[str, str], change: Mapping[str, str]) -> dict[str, str] | Failure:
    """The attributes of a group after `change`: `key` or `+key` sets one, `-key` drops it. Failure: ARGUMENT_ILLEGAL."""
    kept = dict(known)
    for key, value in change.items():
        name = key[1:] if key[:1] in ("+", "-") else key
        if key.startswith("-"):
            kept.pop(name, None)
            continue
        fault = GROUP.get(name, _TEXT).fault(value)
        if fault:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"attribute {name}: {value[:80]!r} {fault}")
        kept[name] = value
    return kept


def unknown(names: Iterable[str]) -> Failure | None:
    """ARGUMENT_ILLEGAL for the first of `names` that is no attribute of a topic, None when all are."""
    for name in names:
        if name not in TOPIC:
            known = ", ".join(("message.type", "durability", *TOPIC))
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"unsupported key: {name[:80]}; a topic has {known}")
    return None


def faulty(attributes: Mapping[str, str]) -> Failure | None:
    """ARGUMENT_ILLEGAL for the first attribute of a topic with an illegal value, None when all are legal."""
    for name, kind in TOPIC.items():
        if name in attributes:
            fault = kind.fault(attributes[name])
            if fault:
                return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"attribute {name}: {attributes[name][:80]!r} {fault}")
    return None


def of_topic(topic: Topic) -> dict[str, str]:
    """All attributes of a topic as a client sets them, with those that are fields of `Topic`."""
    out = {**topic.attributes, "message.type": topic.type, "durability": topic.durability.value}
    if topic.retention_ms:
        out[RETENTION_MS] = str(topic.retention_ms)
    if topic.retention_bytes:
        out[RETENTION_BYTES] = str(topic.retention_bytes)
    return out


def number(attributes: Mapping[str, str], name: str, absent: int) -> int:
    """An attribute as a whole number, `absent` when it is not set. Values were checked when they were set."""
    value = attributes.get(name, "")
    return int(value) if value.lstrip("-").isdigit() else absent
