"""Lite topics: request codes 200070 to 200072 of clients, 200074 to 200079 of tools, and 200073 to clients.

RocketMQ's PopLiteMessageRequestHeader, LiteSubscriptionCtlRequestBody, NotifyUnsubscribeLiteRequestHeader, Get…Lite…Info.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.admin.lite import (
    LiteClient,
    LiteGroup,
    LiteLag,
    LiteNode,
    LiteParent,
    LiteTopic,
)
from domain.event import Leased, Received
from domain.limits import RECEIVE_MESSAGES_MAX, WAIT_MS_MAX
from domain.message.receipt import ORDERED_REVIVE_QUEUE
from domain.message.record import Record
from domain.topic import lite
from domain.topic.lite import LiteAction, LiteTaken, OffsetOption, OffsetOptionType, ReceiveLite, SyncSubscription
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients.pull import without_origin
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, RequestError, Ticket, first_refusal, success
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.bean import Bean
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import FLAG_ONEWAY

SUBSCRIPTIONS_MAX: Final = 1_024
"""Subscriptions that one request can change."""
_POLICIES: Final[Mapping[int, OffsetOptionType]] = {0: OffsetOptionType.LAST, 1: OffsetOptionType.MIN, 2: OffsetOptionType.MAX}


def pop(_client: Client, frame: Frame) -> Outcome:
    """Request code 200070 -> ReceiveLite."""
    args = Arguments(frame)
    limit = args.number("maxMsgNum")
    if not 0 < limit <= RECEIVE_MESSAGES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"maxMsgNum is {limit}, 1 to {RECEIVE_MESSAGES_MAX} are allowed")
    group = args.text("consumerGroup")
    topic = args.text("topic")
    command = ReceiveLite(
        Ticket(frame, _popped, (group, topic, True)),
        args.text("clientId"),
        group,
        topic,
        limit,
        args.number("invisibleTime"),
        max(0, min(args.number("pollTime"), WAIT_MS_MAX)),
        args.text("attemptId", ""),
    )
    return (command,)


def _popped(_client: Client, ticket: Ticket, event: Received) -> bytes:
    fields = {
        "popTime": str(event.pop_ms),
        "invisibleTime": str(event.invisible_ms),
        "reviveQid": str(ORDERED_REVIVE_QUEUE),
    }
    if not event.messages:
        return ticket.reply(codes.POLLING_TIMEOUT, fields, remark="no message before the time was up")
    # Number of earlier deliveries of each message; the offsets are in the messages (INNER_MULTI_QUEUE_OFFSET).
    fields["orderCountInfo"] = ";".join([str(message.attempt - 1) for message in event.messages])
    body = b"".join([without_origin(message.record) for message in event.messages])
    return ticket.reply(codes.SUCCESS, fields, body, "FOUND")


def subscribe(_client: Client, frame: Frame) -> Outcome:
    """Request code 200071 -> a SyncSubscription for each subscription. The reply is SUCCESS or the first refusal."""
    found = bean.beans(bean.read(frame.body), "subscriptionSet") if frame.body else []
    if not 0 < len(found) <= SUBSCRIPTIONS_MAX:
        raise RequestError(codes.ILLEGAL_OPERATION, f"{len(found)} subscriptions, 1 to {SUBSCRIPTIONS_MAX} are allowed")
    multi = MultiTicket(Ticket(frame, success), len(found), first_refusal)
    return [_subscription(multi.part(at), each) for at, each in enumerate(found)]


def _subscription(ticket: object, each: Bean) -> SyncSubscription:
    name = bean.text(each, "action")
    if name not in LiteAction.__members__:
        raise RequestError(codes.INVALID_PARAMETER, f"the action {name[:80]!r} is none of {', '.join(LiteAction.__members__)}")
    action = LiteAction[name]
    option = bean.table(each, "offsetOption")
    start = _start(option) if option and action is LiteAction.PARTIAL_ADD else None
    return SyncSubscription(
        ticket,
        bean.text(each, "clientId"),
        bean.text(each, "group"),
        bean.text(each, "topic"),
        action,
        bean.texts(each, "liteTopicSet"),
        start,
    )


def _start(option: Bean) -> OffsetOption:
    kind, value = bean.text(option, "type"), bean.number(option, "value")
    if kind == "POLICY":
        return OffsetOption(_POLICIES.get(value, OffsetOptionType.LAST))
    try:
        return OffsetOption(OffsetOptionType(kind), value)
    except ValueError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"the offset option {kind[:80]!r} is unknown") from error


def notify_unsubscribe(opaque: int, event: LiteTaken) -> bytes:
    """Request code 200073, oneway: another client has taken the lite topic over."""
    fields = {"liteTopic": event.lite, "consumerGroup": event.group, "clientId": event.client_id}
    return encode(codes.NOTIFY_UNSUBSCRIBE_LITE, opaque, fields=fields, flag=FLAG_ONEWAY)


def queue_of(args: Arguments, topic: str) -> str:
    """The queue of an acknowledgement or of a changed lease: the lite queue of field liteTopic, else the topic."""
    name = args.text("liteTopic", "")
    return lite.queue_name(topic, name) if name else topic


def leased_queue(topic: str, leased: Leased) -> str:
    """The lite queue that a message was leased from."""
    return lite.queue_name(topic, lite.name_in(Record(leased.record).properties))


def node(_client: Client, ticket: Ticket, event: LiteNode) -> bytes:
    """Reply of 200074: a GetBrokerLiteInfoResponseBody."""
    body = {
        "storeType": "headgate",
        "maxLmqNum": 0x7FFFFFFF,
        "currentLmqNum": event.queues,
        "liteSubscriptionCount": event.subscriptions,
        "orderInfoCount": event.positions,
        "cqTableSize": event.queues,
        "offsetTableSize": event.positions,
        "eventMapSize": event.ready,
        "topicMeta": event.topics,
        "groupMeta": event.groups,
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def parent(_client: Client, ticket: Ticket, event: LiteParent) -> bytes:
    """Reply of 200075: a GetParentTopicInfoResponseBody."""
    body = {
        "topic": event.topic,
        "ttl": event.minutes,
        "groups": event.groups,
        "lmqNum": event.queues,
        "liteTopicCount": event.count,
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def topic(_client: Client, ticket: Ticket, event: LiteTopic) -> bytes:
    """Reply of 200076: a GetLiteTopicInfoResponseBody."""
    body = {
        "parentTopic": event.topic,
        "liteTopic": event.lite,
        "subscriber": [{"clientId": client_id, "group": group} for client_id, group in event.subscribers],
        "topicOffset": {"minOffset": event.first, "maxOffset": event.end, "lastUpdateTimestamp": event.newest_ms},
        "shardingToBroker": True,
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def client(_client: Client, ticket: Ticket, event: LiteClient) -> bytes:
    """Reply of 200077, GET_LITE_CLIENT_INFO: the lite topics of one client."""
    body = {
        "parentTopic": event.topic,
        "group": event.group,
        "clientId": event.client_id,
        "lastAccessTime": event.seen_ms,
        "lastConsumeTime": event.received_ms,
        "liteTopicCount": event.count,
        "liteTopicSet": [lite.queue_name(event.topic, name) for name in event.names],
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def group(_client: Client, ticket: Ticket, event: LiteGroup) -> bytes:
    """Reply of 200078, GET_LITE_GROUP_INFO: how far a group is behind in lite topics."""
    body: dict[str, object] = {
        "group": event.group,
        "parentTopic": event.topic,
        "liteTopic": event.lite,
        "totalLagCount": event.count,
        "earliestUnconsumedTimestamp": event.oldest_ms,
        "lagCountTopK": [_lag(each) for each in event.by_count],
        "lagTimestampTopK": [_lag(each) for each in event.by_age],
    }
    if event.position is not None:
        end, position, last_ms = event.position
        body["liteTopicOffsetWrapper"] = {
            "brokerOffset": end,
            "consumerOffset": position,
            "pullOffset": position,
            "lastTimestamp": last_ms,
        }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _lag(each: LiteLag) -> Mapping[str, object]:
    return {"liteTopic": each.lite, "lagCount": each.count, "earliestUnconsumedTimestamp": each.oldest_ms}
