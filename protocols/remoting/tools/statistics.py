"""Connections, progress, rates and queue rows: codes 202 to 204, 208, 303, 315, 317, 321, 328, 343, 345 and 200052.

RocketMQ's ConsumerConnection, ProducerTableInfo, ConsumeStats, BrokerStatsData, QueryConsumeQueueResponseBody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from domain.admin.broker import FlowRate, Rates
from domain.admin.client import ClientSeen, Connections, Producers, QueryConnections
from domain.admin.group import ConsumedTopics
from domain.admin.message import Peek, Peeked
from domain.admin.position import Backlog, Progress, QueueTimeSpan, TimeSpans
from domain.admin.topic import TopicState
from domain.client.membership import Subscription
from domain.command import Pull
from domain.event import Pulled
from domain.filter.tag import tag_hash
from domain.limits import RECEIVE_MESSAGES_MAX
from domain.message import property as properties
from domain.message.record import Record
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.clients.pull import without_origin
from protocols.remoting.ticket import Arguments, Outcome, Rendering, RequestError, Ticket
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame

GROUPS_PER_STEP: Final = 16
"""Groups of a backlog that are written between two turns of the loop."""
ROWS_MAX: Final = 256
"""Queue index rows that one request can read."""


def topic(client: Client, ticket: Ticket, event: TopicState) -> Rendering:
    """Reply of 202: a TopicStatsTable."""
    (name,) = ticket.request_data
    table = yield from fastjson.keyed_members(
        (
            fastjson.queue(client.node.broker, name, queue_id),
            {"lastUpdateTimestamp": max(0, last_ms), "maxOffset": stop, "minOffset": start},
        )
        for queue_id, start, stop, last_ms in event.queues
    )
    rate = fastjson.dumps(event.per_second)
    return ticket.reply(codes.SUCCESS, body=b"".join((b'{"offsetTable":{', *table, b'},"topicPutTps":%b}' % rate)))


def progress(client: Client, ticket: Ticket, event: Progress) -> Rendering:
    """Reply of 208: a ConsumeStats bean."""
    stats = yield from _stats(client, event.queues, event.times, event.given, event.per_second)
    return ticket.reply(codes.SUCCESS, body=b"".join(stats))


def _stats(
    client: Client,
    queues: Sequence[tuple[str, int, int, int]],
    times: Mapping[tuple[str, int], int],
    given: Mapping[tuple[str, int], int],
    per_second: float,
) -> fastjson.Pieces:
    """A ConsumeStats bean."""
    table = yield from fastjson.keyed_members(
        (
            fastjson.queue(client.node.broker, name, queue_id),
            {
                "brokerOffset": end,
                "consumerOffset": position,
                "lastTimestamp": times.get((name, queue_id), 0),
                "pullOffset": given.get((name, queue_id), position),
            },
        )
        for name, queue_id, end, position in queues
    )
    return [b'{"consumeTps":%b,"offsetTable":{' % fastjson.dumps(per_second), *table, b"}}"]


def backlog(client: Client, ticket: Ticket, event: Backlog) -> Rendering:
    """Reply of 317: a ConsumeStats bean for each group."""
    behind = working = size = 0
    pieces = [b'{"brokerAddr":%b,"consumeStatsList":[' % fastjson.dumps(client.node.address)]
    for at, (name, queues) in enumerate(sorted(event.groups.items()), 1):
        given = event.given.get(name, {})
        behind += sum(end - position for _, _, end, position in queues)
        working += sum(given.get((topic, queue_id), position) - position for topic, queue_id, _, position in queues)
        stats = yield from _stats(client, queues, event.times.get(name, {}), given, 0.0)
        size += sum(map(len, stats))
        if size > fastjson.ANSWER_BYTES_MAX:
            raise fastjson.LongAnswerError
        pieces += (b"," if len(pieces) > 1 else b"", b"{%b:[" % fastjson.dumps(name), *stats, b"]}")
        if at % GROUPS_PER_STEP == 0:
            yield
    pieces.append(b'],"totalDiff":%d,"totalInflightDiff":%d}' % (behind, working))
    return ticket.reply(codes.SUCCESS, body=b"".join(pieces))


def spans(client: Client, ticket: Ticket, event: TimeSpans) -> Rendering:
    """Reply of 303: `consumeTimeSpanSet` has a QueueTimeSpan bean for each queue, times in epoch ms, delays in ms."""
    name, _ = ticket.request_data
    body = yield from fastjson.listing(b"consumeTimeSpanSet", (_span(client, name, span) for span in event.spans))
    return ticket.reply(codes.SUCCESS, body=body)


def _span(client: Client, name: str, span: QueueTimeSpan) -> Mapping[str, object]:
    waiting = span.waiting_ms
    return {
        "consumeTimeStamp": span.consumed_ms if span.consumed_ms >= 0 else span.first_ms,
        "delayTime": max(0, client.node.wall_ms() - waiting) if waiting >= 0 else 0,
        "maxTimeStamp": span.last_ms,
        "messageQueue": fastjson.queue(client.node.broker, name, span.queue_id),
        "minTimeStamp": span.first_ms,
    }


def consumers(_client: Client, ticket: Ticket, event: Connections) -> bytes:
    """Reply of 203: a ConsumerConnection bean."""
    body = {
        "connectionSet": [_connection(each) for each in event.clients],
        "consumeFromWhere": event.from_where,
        "consumeType": event.consume_type,
        "messageModel": event.model,
        "subscriptionTable": {each.topic: _subscription(each) for each in event.subscriptions},
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _connection(client: ClientSeen) -> Mapping[str, object]:
    return {
        "clientAddr": client.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def _subscription(subscription: Subscription) -> Mapping[str, object]:
    """A SubscriptionData bean."""
    text = subscription.expression
    tags = [] if text in ("", "*") else [each.strip() for each in text.split("||") if each.strip()]
    by_tag = subscription.expression_type == "TAG"
    return {
        "classFilterMode": False,
        "codeSet": [tag_hash(each) for each in tags] if by_tag else [],
        "expressionType": subscription.expression_type,
        "subString": text,
        "subVersion": subscription.version,
        "tagsSet": tags if by_tag else [],
        "topic": subscription.topic,
    }


def producers(_client: Client, ticket: Ticket, event: Producers) -> bytes:
    """Reply of 204: the producers of one group."""
    clients = [_connection(each) for clients in event.groups.values() for each in clients]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"connectionSet": clients}))


def all_producers(_client: Client, ticket: Ticket, event: Producers) -> bytes:
    """Reply of 328: the producers of all groups."""
    data = {
        name: [
            {
                "clientId": each.client_id,
                "language": each.language,
                "lastUpdateTimestamp": each.seen_ms,
                "remoteIP": each.address,
                "version": each.version,
            }
            for each in clients
        ]
        for name, clients in event.groups.items()
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"data": data}))


def consumed(_client: Client, ticket: Ticket, event: ConsumedTopics) -> Rendering:
    """Reply of 343: a TopicList."""
    body = yield from fastjson.listing(b"topicList", event.topics)
    return ticket.reply(codes.SUCCESS, body=body)


def subscription(_client: Client, frame: Frame) -> Outcome:
    """Request code 345 -> QueryConnections. The reply has the subscription of one topic."""
    args = Arguments(frame)
    asked = (args.text("group"), args.text("topic"))
    return (QueryConnections(Ticket(frame, _subscribed, asked), asked[0]),)


def _subscribed(_client: Client, ticket: Ticket, event: Connections) -> bytes:
    group, name = ticket.request_data
    body: dict[str, object] = {"group": group, "topic": name}
    for each in event.subscriptions:
        if each.topic == name:
            body["subscriptionData"] = _subscription(each)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def rates(_client: Client, ticket: Ticket, event: Rates) -> bytes:
    """Reply of 315: a BrokerStatsData bean."""
    body = {"statsDay": _rate(event.day), "statsHour": _rate(event.hour), "statsMinute": _rate(event.minute)}
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _rate(rate: FlowRate) -> Mapping[str, object]:
    return {"avgpt": rate.per_time, "sum": rate.sum, "tps": rate.per_second}


def rows(_client: Client, frame: Frame) -> Outcome:
    """Request code 321 -> Pull. The reply has the queue index rows of the records."""
    args = Arguments(frame)
    count = args.number("count")
    if not 0 < count <= ROWS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"count is {count}, 1 to {ROWS_MAX} are allowed")
    index = max(0, args.number("index"))
    command = Pull(Ticket(frame, _rows), "", args.text("topic"), args.number("queueId"), index, count, 4 * 1024 * 1024)
    return (command,)


def _rows(_client: Client, ticket: Ticket, event: Pulled) -> bytes:
    body = {
        "maxQueueIndex": event.max_offset,
        "minQueueIndex": event.min_offset,
        "queueData": [_row(Record(each)) for each in event.records],
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _row(record: Record) -> Mapping[str, object]:
    tags = properties.text(record.properties, properties.TAGS)
    return {
        "eval": True,
        "physicOffset": record.physical_offset,
        "physicSize": len(record.data),
        "tagsCode": tag_hash(tags),
    }


def peek(_client: Client, frame: Frame) -> Outcome:
    """Request code 200052 -> Peek."""
    args = Arguments(frame)
    limit = args.number("maxMsgNums")
    if not 0 < limit <= RECEIVE_MESSAGES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"maxMsgNums is {limit}, 1 to {RECEIVE_MESSAGES_MAX} are allowed")
    command = Peek(
        Ticket(frame, _peeked), args.text("consumerGroup"), args.text("topic"), max(-1, args.number("queueId")), limit
    )
    return (command,)


def _peeked(client: Client, ticket: Ticket, event: Peeked) -> bytes:
    if not event.records:
        return ticket.reply(codes.PULL_NOT_FOUND, remark="there is nothing at the group's position")
    fields = {
        "popTime": str(client.node.wall_ms()),
        "invisibleTime": "0",
        "reviveQid": "0",
        "restNum": str(event.remaining),
    }
    return ticket.reply(codes.SUCCESS, fields, b"".join(without_origin(each) for each in event.records), "FOUND")
