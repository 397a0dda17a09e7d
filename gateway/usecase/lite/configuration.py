"""What a topic and a group have to be for lite topics, and what the group's attributes say about them."""

from __future__ import annotations

from domain import attribute, lite
from domain.errors import ErrorCode, Failure
from domain.store_ports import Metadata
from domain.topic import Group, Topic


def topic_of(metadata: Metadata, name: str) -> Topic | Failure:
    """A topic of type LITE: TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL."""
    topic = metadata.topic(name)
    if topic is None:
        return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist")
    if topic.type != "LITE":
        text = f"topic {name} is of type {topic.type}: lite topics are under topics with message.type=LITE"
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
    return topic


def group_of(metadata: Metadata, name: str, topic: str) -> Group | Failure:
    """A group that is bound to `topic`, to any where that is "": GROUP_NOT_FOUND, ARGUMENT_ILLEGAL."""
    group = metadata.group(name)
    if group is None:
        return Failure(ErrorCode.GROUP_NOT_FOUND, f"group {name} does not exist: make it with {attribute.BIND_TOPIC}")
    bound = group.attributes.get(attribute.BIND_TOPIC, "")
    if not bound or topic not in ("", bound):
        text = f"group {name} is bound to {bound or 'no topic'}: set its attribute {attribute.BIND_TOPIC} to {topic or 'one'}"
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
    return group


def bound_groups(metadata: Metadata) -> dict[str, list[str]]:
    """Topic -> names of the groups that are bound to it, sorted."""
    found: dict[str, list[str]] = {}
    for group in metadata.groups():
        bound = group.attributes.get(attribute.BIND_TOPIC)
        if bound:
            found.setdefault(bound, []).append(group.name)
    return found


def is_wildcard(group: Group) -> bool:
    """True when every member of the group has all lite topics (SubscriptionGroupConfig.isWildcardLiteGroup)."""
    return attribute.WILDCARD in group.attributes


def is_exclusive(group: Group) -> bool:
    """True when a lite topic belongs to the member that has subscribed to it last."""
    return group.attributes.get(attribute.MODEL) == "Exclusive"


def quota(group: Group) -> int:
    """Lite topics that one member may have; below 0: as many as the node takes."""
    return attribute.number(group.attributes, attribute.CLIENT_QUOTA, lite.CLIENT_QUOTA)


def expiration_ms(topic: Topic) -> int:
    """Milliseconds without a message after which a lite topic ends; 0: never."""
    return max(attribute.number(topic.attributes, attribute.EXPIRATION, -1), 0) * 60_000
