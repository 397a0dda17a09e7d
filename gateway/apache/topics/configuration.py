"""Configuration of topics and groups at brokers: requests and answers of codes 17, 351, 200 and 352."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from domain.errors import ErrorCode, Failure
from domain.topic import attribute
from domain.topic.topic import Group, Topic
from gateway.brokers.document import document
from gateway.link.request import Request
from protocols.remoting import codes

MESSAGE_TYPE: Final = "message.type"
TYPES: Final = frozenset({"NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE"})


def attributes_from(body: bytes) -> dict[str, str]:
    """TopicConfig -> its attributes. Raises BrokerAnswerError."""
    found = document(body).get("attributes")
    if not isinstance(found, dict):
        return {}
    return {str(name): str(value) for name, value in found.items() if isinstance(name, str)}


def type_of(attributes: Mapping[str, str]) -> str:
    """The type of messages that a topic takes. One whose configuration names none takes every type, as brokers do."""
    found = attributes.get(MESSAGE_TYPE, "MIXED")
    return found if found in TYPES else "MIXED"


def group_from(name: str, body: bytes) -> Group:
    """SubscriptionGroupConfig -> group. Raises BrokerAnswerError."""
    found = document(body)
    retry_max = found.get("retryMaxTimes", 16)
    retry_queues = found.get("retryQueueNums", 1)
    attributes = found.get("attributes")
    return Group(
        name,
        orderly=found.get("consumeMessageOrderly") is True,
        consume_enable=found.get("consumeEnable") is not False,
        consume_from_min=found.get("consumeFromMinEnable") is not False,
        broadcast_enable=found.get("consumeBroadcastEnable") is not False,
        retry_max=retry_max if isinstance(retry_max, int) else 16,
        retry_queues=retry_queues if isinstance(retry_queues, int) else 1,
        attributes={str(key): str(value) for key, value in attributes.items()} if isinstance(attributes, dict) else {},
        notify=found.get("notifyConsumerIdsChangedEnable") is not False,
    )


def refused(topic: Topic) -> Failure | None:
    """The part of a topic's configuration that a cluster does not support, by name; None: it supports all."""
    if topic.type in ("LITE", "PRIORITY"):
        text = f"topic {topic.name}: {topic.type} topics are not served over an Apache RocketMQ cluster"
        return Failure(ErrorCode.NOT_SUPPORTED, text)
    wanted = [
        name for name, value in (("retention_ms", topic.retention_ms), ("retention_bytes", topic.retention_bytes)) if value
    ]
    wanted += [name for name in topic.attributes if name == attribute.DEDUPLICATION]
    if wanted:
        names = ", ".join(wanted)
        text = f"topic {topic.name}: {names} cannot be set at an Apache RocketMQ cluster, which has none by topic"
        return Failure(ErrorCode.NOT_SUPPORTED, text)
    return None


def topic_request(topic: Topic, broker: str, read_queues: int, write_queues: int, known: Mapping[str, str]) -> Request:
    """Create or change a topic at one broker. `known`: the attributes that it has there."""
    attributes = {name: value for name, value in topic.attributes.items() if name != MESSAGE_TYPE}
    if topic.type != "MIXED":
        attributes[MESSAGE_TYPE] = topic.type
    changed = ",".join(f"+{name}={value}" for name, value in sorted(attributes.items()) if known.get(name) != value)
    fields = {
        "topic": topic.name, "defaultTopic": "TBW102", "readQueueNums": str(read_queues), "writeQueueNums": str(write_queues),
        "perm": str(topic.perm), "topicFilterType": "SINGLE_TAG", "topicSysFlag": str(topic.sys_flag),
        "order": "true" if topic.order else "false", "attributes": changed, "force": "false", "bname": broker,
    }  # fmt: skip
    return Request(codes.UPDATE_TOPIC, fields)


def group_request(group: Group) -> Request:
    """Create or change a group at a broker."""
    body = {
        "groupName": group.name, "consumeEnable": group.consume_enable, "consumeFromMinEnable": group.consume_from_min,
        "consumeBroadcastEnable": group.broadcast_enable, "consumeMessageOrderly": group.orderly,
        "retryMaxTimes": group.retry_max, "retryQueueNums": group.retry_queues, "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": group.notify, "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
    }  # fmt: skip
    return Request(codes.UPDATE_GROUP, {"bname": "any"}, orjson.dumps(body))
