"""Administration of topics and groups: request codes 17, 18, 21, 200, 201, 207, 215, 225, 311 to 313 and 351 to 353.

RocketMQ's CreateTopicRequestHeader, TopicConfig, SubscriptionGroupConfig, TopicSysFlag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from domain.admin.group import GroupFound, GroupList, PutGroup, Readable, SetReadable
from domain.admin.topic import ChangeTopic, TopicChange, TopicFound, TopicList
from domain.topic import attribute
from domain.topic.topic import PERM_READ, Group, Topic
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, Rendering, RequestError, Ticket, first_refusal, success
from protocols.remoting.tools import retry_policy
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.bean import Bean
from protocols.remoting.wire.frame import Frame

LIST_MAX: Final = 1_024
"""Topics or groups that one request may create."""
RETRY_MAX: Final = 1_000_000
"""Redeliveries of a message that a group may have. A number that Apache reads as "without end", as -1, is refused."""
RETRY_QUEUES_MAX: Final = 65_536
UNIT: Final = 1
UNIT_SUBSCRIBED: Final = 2
UNIT_FLAGS: Final[Mapping[int, tuple[int, int]]] = {
    codes.GET_UNIT_TOPICS: (UNIT, UNIT),
    codes.GET_UNIT_SUBSCRIBED: (UNIT_SUBSCRIBED, UNIT_SUBSCRIBED),
    codes.GET_UNIT_SUBSCRIBED_ALONE: (UNIT | UNIT_SUBSCRIBED, UNIT_SUBSCRIBED),
}
"""Request code -> (mask, value): the reply lists the topics of which `sysFlag & mask` is `value`."""


def put_topic(_client: Client, frame: Frame) -> Outcome:
    """Request code 17 -> ChangeTopic."""
    args = Arguments(frame)
    change = TopicChange(
        args.text("topic"),
        args.number("readQueueNums"),
        args.number("writeQueueNums"),
        args.number("perm"),
        args.flag("order"),
        args.number("topicSysFlag", 0),
        *_attributes(args.text("attributes", "")),
    )
    return (ChangeTopic(Ticket(frame, success), change),)


def _attributes(text: str) -> tuple[dict[str, str], list[str]]:
    """`+key=value,-key2` -> (attributes to set, attributes to remove). Raises RequestError."""
    put: dict[str, str] = {}
    drop: list[str] = []
    for piece in text.split(","):
        each = piece.strip()
        if not each:
            continue
        key, equals, value = each[1:].partition("=")
        if key in put or key in drop:
            raise RequestError(codes.INVALID_PARAMETER, f"key duplication: {key[:80]}")
        if each[0] == "+" and key and equals:
            put[key] = value
        elif each[0] == "-" and key and not equals:
            drop.append(key)
        else:
            raise RequestError(codes.INVALID_PARAMETER, f"attribute {each[:80]!r} is neither +key=value nor -key")
    return put, drop


def put_topics(_client: Client, frame: Frame) -> Outcome:
    """Request code 18 -> a ChangeTopic for each topic of the list. The reply is SUCCESS or the first refusal."""
    found = bean.beans(bean.read(frame.body), "topicConfigList")
    changes = [_change(each) for each in found]
    multi = MultiTicket(Ticket(frame, success), _counted(changes), first_refusal)
    return [ChangeTopic(multi.part(at), change) for at, change in enumerate(changes)]


def _counted(listed: Sequence[object]) -> int:
    if not 0 < len(listed) <= LIST_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"the list has {len(listed)} elements, 1 to {LIST_MAX} are allowed")
    return len(listed)


def _change(config: Bean) -> TopicChange:
    attributes = {key: value for key, value in bean.table(config, "attributes").items() if isinstance(value, str)}
    put, drop = _attributes(",".join(f"{key}={value}" if key.startswith("+") else key for key, value in attributes.items()))
    return TopicChange(
        bean.text(config, "topicName"),
        bean.whole(config, "readQueueNums", 16),
        bean.whole(config, "writeQueueNums", 16),
        bean.whole(config, "perm", 6),
        bean.decided(config, "order"),
        bean.whole(config, "topicSysFlag", 0),
        put,
        drop,
    )


def topic(_client: Client, ticket: Ticket, event: TopicFound) -> bytes:
    """Reply of 351: a TopicConfig bean."""
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_topic_config(event.topic)))


def _topic_config(topic: Topic) -> Mapping[str, object]:
    return {
        "attributes": attribute.of_topic(topic),
        "order": topic.order,
        "perm": topic.perm,
        "readQueueNums": topic.read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }  # fmt: skip


def topics(_client: Client, ticket: Ticket, event: TopicList) -> Rendering:
    """Reply of 21: `topicConfigTable` has a TopicConfig bean for each topic; the maps of static topics are empty."""
    newest_ms = max((each.created_ms for each in event.topics), default=0)
    return topic_table(ticket, event.topics, newest_ms, len(event.topics))


def topic_table(ticket: Ticket, listed: Sequence[Topic], version_ms: int, total: int) -> Rendering:
    """Reply of 21 with these topics. `version_ms`: of the data version; `total`: number of all topics."""
    version, none = fastjson.dumps(fastjson.data_version(version_ms)), fastjson.dumps(fastjson.data_version())
    head = b'{"dataVersion":%b,"mappingDataVersion":%b,"topicConfigTable":{' % (version, none)
    table = yield from fastjson.members((each.name, _topic_config(each)) for each in listed)
    body = b"".join((head, *table, b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'))
    return ticket.reply(codes.SUCCESS, {"totalTopicNum": str(total)}, body)


def _named(ticket: Ticket, event: TopicList, matches: Callable[[Topic], bool]) -> Rendering:
    """The reply with the names of the topics that match."""
    found: list[str] = []
    for at, each in enumerate(event.topics, 1):
        if matches(each):
            found.append(each.name)
        if at % fastjson.BATCH == 0:
            yield
    body = yield from fastjson.listing(b"topicList", found)
    return ticket.reply(codes.SUCCESS, body=body)


def unit_topics(_client: Client, ticket: Ticket, event: TopicList) -> Rendering:
    """Reply of 311, 312, 313: the topics whose sysFlag matches UNIT_FLAGS."""
    mask, wanted = UNIT_FLAGS[ticket.code]
    return _named(ticket, event, lambda each: each.sys_flag & mask == wanted)


def put_group(_client: Client, frame: Frame) -> Outcome:
    """Request code 200 -> PutGroup."""
    return (PutGroup(Ticket(frame, success), _group(bean.read(frame.body))),)


def put_groups(_client: Client, frame: Frame) -> Outcome:
    """Request code 225 -> a PutGroup for each group of the list. The reply is SUCCESS or the first refusal."""
    groups = [_group(each) for each in bean.beans(bean.read(frame.body), "groupConfigList")]
    multi = MultiTicket(Ticket(frame, success), _counted(groups), first_refusal)
    return [PutGroup(multi.part(at), group) for at, group in enumerate(groups)]


def _group(config: Bean) -> Group:
    attributes = {
        key.removeprefix("+"): value for key, value in bean.table(config, "attributes").items() if isinstance(value, str)
    }
    return Group(
        bean.text(config, "groupName"),
        orderly=bean.decided(config, "consumeMessageOrderly"),
        consume_enable=bean.decided(config, "consumeEnable", True),
        consume_from_min=bean.decided(config, "consumeFromMinEnable", True),
        broadcast_enable=bean.decided(config, "consumeBroadcastEnable", True),
        notify=bean.decided(config, "notifyConsumerIdsChangedEnable", True),
        retry_max=bean.whole(config, "retryMaxTimes", 16, 0, RETRY_MAX),
        retry_queues=bean.whole(config, "retryQueueNums", 1, 0, RETRY_QUEUES_MAX),
        retry=retry_policy.read(bean.table(config, "groupRetryPolicy")),
        attributes=attributes,
    )


def group(_client: Client, ticket: Ticket, event: GroupFound) -> bytes:
    """Reply of 352: a SubscriptionGroupConfig bean."""
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_group_config(event.group)))


def _group_config(group: Group) -> Mapping[str, object]:
    return {
        "attributes": group.attributes,
        "brokerId": 0,
        "consumeBroadcastEnable": group.broadcast_enable,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min,
        "consumeMessageOrderly": group.orderly,
        "consumeTimeoutMinute": 15,
        "groupName": group.name,
        "groupRetryPolicy": retry_policy.to_bean(group.retry),
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": group.notify,
        "retryMaxTimes": group.retry_max,
        "retryQueueNums": group.retry_queues,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def groups(_client: Client, ticket: Ticket, event: GroupList) -> Rendering:
    """Reply of 201: `subscriptionGroupTable` has a SubscriptionGroupConfig bean for each group."""
    newest_ms = max((each.created_ms for each in event.groups), default=0)
    return group_table(ticket, event, newest_ms, len(event.groups))


def group_table(ticket: Ticket, event: GroupList, version_ms: int, total: int) -> Rendering:
    """Reply of 201 with these groups. `version_ms`: of the data version; `total`: number of all groups."""
    version = fastjson.dumps(fastjson.data_version(version_ms))
    forbidden = yield from fastjson.members((name, dict.fromkeys(found, PERM_READ)) for name, found in event.forbidden.items())
    table = yield from fastjson.members((each.name, _group_config(each)) for each in event.groups)
    head = b'{"dataVersion":%b,"forbiddenTable":{' % version
    body = b"".join((head, *forbidden, b'},"subscriptionGroupTable":{', *table, b"}}"))
    return ticket.reply(codes.SUCCESS, {"totalGroupNum": str(total)}, body)


def set_readable(_client: Client, frame: Frame) -> Outcome:
    """Request code 353 -> SetReadable (UpdateGroupForbiddenRequestHeader); without field `readable` nothing is changed."""
    args = Arguments(frame)
    name, group_name = args.text("topic"), args.text("group")
    wanted = args.flag("readable") if args.has("readable") else None
    return (SetReadable(Ticket(frame, _readable, (group_name, name)), group_name, name, wanted),)


def _readable(_client: Client, ticket: Ticket, event: Readable) -> bytes:
    group_name, name = ticket.request_data
    body = {"group": group_name, "readable": event.readable, "topic": name}
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))
