"""The configuration of lite topics, from the attributes of parent topics and groups."""

from __future__ import annotations

from domain.errors import ErrorCode, Failure
from domain.store.store_ports import Metadata
from domain.topic import attribute, lite
from domain.topic.topic import Group, Topic


def topic_of(metadata: Metadata, name: str) -> Topic | Failure:
    """The topic `name` of type LITE. Failure: TOPIC_NOT_FOUND; ARGUMENT_ILLEGAL when it is of another type."""
    topic = metadata.topic(name)
    if topic is None:
        return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist")
    if topic.type != "LITE":
        text = f"topic {name} is of type {topic.type}: lite topics are under topics with message.type=LITE"
        return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
    return topic


def group_of(metadata: Metadata, name: str, topic: str) -> Group | Failure:
    """The group `name`, bound to `topic`; "" is any topic. Failure: GROUP_NOT_FOUND; ARGUMENT_ILLEGAL when it is not bound."""
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
    """True when every member of the group is subscribed to all lite topics (SubscriptionGroupConfig.isWildcardLiteGroup)."""
    return attribute.WILDCARD in group.attributes


def is_exclusive(group: Group) -> bool:
    """True when only the member that subscribed to a lite topic last receives from it."""
    return group.attributes.get(attribute.MODEL) == "Exclusive"


def quota(group: Group) -> int:
    """Lite topics that one member may subscribe to; below 0: as many as the node allows."""
    return attribute.number(group.attributes, attribute.CLIENT_QUOTA, lite.CLIENT_QUOTA)


def expiration_ms(topic: Topic) -> int:
    """Milliseconds without a message after which a lite topic is deleted; 0: never."""
    return max(attribute.number(topic.attributes, attribute.EXPIRATION, -1), 0) * 60_000
