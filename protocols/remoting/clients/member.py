"""Members of consumer groups: heartbeats, queue locks, assignments; codes 34, 35, 38, 40 to 42, 46, 400 and 401."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.address import RETRY_PREFIX, endpoint_text
from domain.admin.group import QueryRequestMode, RequestMode, SetRequestMode
from domain.client.membership import (
    Heartbeat,
    Leave,
    Locked,
    LockQueues,
    Members,
    MembersChanged,
    Membership,
    QueryMembers,
    Subscription,
)
from domain.errors import ErrorCode
from domain.event import Event, Refused
from domain.filter.filter import TAG
from domain.nameserver.route import QueryRoute, RouteFound
from protocols.remoting import codes
from protocols.remoting.client import GROUPS_PER_CONNECTION_MAX, Client
from protocols.remoting.clients import assignment
from protocols.remoting.clients.pull import compiled
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, RequestError, Ticket, success
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import FLAG_ONEWAY, LANGUAGES

SUBSCRIPTIONS_MAX: Final = 4_096
"""Subscriptions of one heartbeat."""
GROUPS_AT_ONCE: Final = 1
"""Groups of one Heartbeat command: a new group is stored, and so is its retry topic."""

_CONSUME_TYPES: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
_MODELS: Final = ("BROADCASTING", "CLUSTERING")


def heartbeat(client: Client, frame: Frame) -> Outcome:
    """Request code 34 -> Heartbeat: the client and the groups that it is a member of, GROUPS_AT_ONCE in each command."""
    found = bean.read(frame.body)
    client_id = bean.text(found, "clientID")
    if not client_id:
        raise RequestError(codes.INVALID_PARAMETER, "a heartbeat without clientID")
    keep = bean.flag(found, "withoutSub")
    consumers = [_membership(each) for each in bean.beans(found, "consumerDataSet")]
    producers = [bean.text(each, "groupName") for each in bean.beans(found, "producerDataSet")]
    named = sum(len(each.subscriptions) for each in consumers)
    if len(consumers) > GROUPS_PER_CONNECTION_MAX or len(producers) > GROUPS_PER_CONNECTION_MAX or named > SUBSCRIPTIONS_MAX:
        raise RequestError(
            codes.INVALID_PARAMETER, f"a heartbeat may name {GROUPS_PER_CONNECTION_MAX} groups and {SUBSCRIPTIONS_MAX} topics"
        )
    fingerprint = bean.number(found, "heartbeatFingerprint")
    joined = [client.join_group(client_id, membership, keep, fingerprint) for membership in consumers]
    consumers = [membership for membership, _ in joined]
    ticket = Ticket(frame, _alive, fingerprint == 0 or any(differs for _, differs in joined))
    parts = [consumers[at : at + GROUPS_AT_ONCE] for at in range(0, len(consumers), GROUPS_AT_ONCE)] or [consumers]
    multi = MultiTicket(ticket, len(parts), _all_alive) if len(parts) > 1 else None
    return [
        Heartbeat(
            multi.part(at) if multi is not None else ticket,
            client_id,
            [each for each in producers if each and at == 0],
            part,
            LANGUAGES[frame.language],
            frame.version,
            keep,
            wait=not frame.oneway,
            address=endpoint_text(client.peer.host, client.peer.port),
        )
        for at, part in enumerate(parts)
    ]


def _membership(consumer: bean.Bean) -> Membership:
    return Membership(
        bean.text(consumer, "groupName"),
        _enum(bean.text(consumer, "consumeType"), _CONSUME_TYPES, 1),
        _enum(bean.text(consumer, "messageModel"), _MODELS, 1),
        bean.text(consumer, "consumeFromWhere", "CONSUME_FROM_LAST_OFFSET"),
        [
            Subscription(
                bean.text(each, "topic"),
                bean.text(each, "subString", "*"),
                bean.text(each, "expressionType", TAG),
                bean.number(each, "subVersion"),
            )
            for each in bean.beans(consumer, "subscriptionDataSet")
        ],
    )


def _enum(text: str, names: Sequence[str], absent: int) -> str:
    if text in names:
        return text
    return names[int(text)] if text.isdigit() and text.isascii() and int(text) < len(names) else names[absent]


def _alive(_client: Client, ticket: Ticket, _event: Event) -> bytes:
    wants_subscriptions = "true" if ticket.request_data else "false"
    return ticket.reply(codes.SUCCESS, {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": wants_subscriptions})


def _all_alive(client: Client, ticket: Ticket, events: Sequence[Event]) -> bytes:
    for event in events:
        if isinstance(event, Refused):
            return ticket.refused(event.failure)
    return _alive(client, ticket, events[0])


def leave(client: Client, frame: Frame) -> Outcome:
    """Request code 35 -> Leave: the client leaves a group, or all groups."""
    args = Arguments(frame)
    group = args.text("consumerGroup", "")
    producer = args.text("producerGroup", "")
    if group or not producer:
        client.leave_group(group)
    return (Leave(Ticket(frame, success), args.text("clientID"), group, producer),)


def members(_client: Client, ticket: Ticket, event: Members) -> bytes:
    """Reply of 38: the client ids of a group, by which clients assign queues themselves."""
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"consumerIdList": event.client_ids}))


def members_changed(opaque: int, event: MembersChanged) -> bytes:
    """Request code 40, oneway, sent by the node: the members of a group have changed."""
    return encode(codes.MEMBERS_CHANGED, opaque, fields={"consumerGroup": event.group}, flag=FLAG_ONEWAY)


def lock(_client: Client, frame: Frame) -> Outcome:
    """Request codes 41, 42 -> LockQueues: locks or unlocks queues for an orderly consumer."""
    found = bean.read(frame.body)
    queues = [
        (bean.text(each, "brokerName"), bean.text(each, "topic"), bean.number(each, "queueId"))
        for each in bean.beans(found, "mqSet")
    ]
    group = bean.text(found, "consumerGroup")
    client_id = bean.text(found, "clientId")
    if not group or not client_id:
        raise RequestError(codes.INVALID_PARAMETER, "a lock without consumerGroup or clientId")
    unlock = frame.code == codes.UNLOCK_QUEUES
    render = success if unlock else _locked
    return (LockQueues(Ticket(frame, render), group, client_id, queues, unlock, wait=not frame.oneway),)


def _locked(_client: Client, ticket: Ticket, event: Locked) -> bytes:
    held = [fastjson.queue(broker, topic, queue_id) for broker, topic, queue_id in event.queues]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"lockOKMQSet": held}))


def check(client: Client, frame: Frame) -> Outcome:
    """Request code 46: SUCCESS when the filter expression compiles, else SUBSCRIPTION_PARSE_FAILED."""
    asked = bean.table(bean.read(frame.body), "subscriptionData")
    compiled(client, bean.text(asked, "subString", "*"), bean.text(asked, "expressionType", TAG))
    return Ticket(frame, success).reply(codes.SUCCESS)


def set_mode(_client: Client, frame: Frame) -> Outcome:
    """Request code 401 -> SetRequestMode: whether a group consumes a topic by PULL or by POP."""
    found = bean.read(frame.body)
    command = SetRequestMode(
        Ticket(frame, success),
        bean.text(found, "consumerGroup"),
        bean.text(found, "topic"),
        bean.text(found, "mode", "PULL"),
        bean.number(found, "popShareQueueNum"),
    )
    return (command,)


def assign(_client: Client, frame: Frame) -> Outcome:
    """Request code 400 -> QueryRequestMode, QueryMembers and QueryRoute: the queues of the client and its request mode."""
    found = bean.read(frame.body)
    group = bean.text(found, "consumerGroup")
    topic = bean.text(found, "topic")
    asked = assignment.AssignmentRequest(
        bean.text(found, "clientId"),
        topic,
        bean.text(found, "strategyName", "AVG"),
        bean.text(found, "messageModel", "CLUSTERING") == "BROADCASTING",
    )
    multi = MultiTicket(Ticket(frame, success, asked), 3, _assigned)
    return (
        QueryRequestMode(multi.part(0), group, topic),
        QueryMembers(multi.part(1), group),
        QueryRoute(multi.part(2), topic),
    )


def _assigned(_client: Client, ticket: Ticket, events: Sequence[Event]) -> bytes:
    mode, found, route = events
    asked: assignment.AssignmentRequest = ticket.request_data
    for each in (route, mode):
        if isinstance(each, Refused):
            if each.failure.code is ErrorCode.TOPIC_NOT_FOUND:
                # After an error, the client would assign queues itself from now on, in both modes.
                return ticket.reply(codes.SUCCESS, body=b"{}")
            return ticket.refused(each.failure)
    assert isinstance(route, RouteFound)
    assert isinstance(mode, RequestMode)
    brokers = assignment.readable(route.queues)
    if assignment.size(brokers) > assignment.QUEUES_MAX:
        text = f"topic {asked.topic} has more than {assignment.QUEUES_MAX} queues on all its brokers: clients share them out"
        return ticket.reply(codes.SYSTEM_ERROR, remark=text)
    ids = found.client_ids if isinstance(found, Members) else []
    name = mode.mode if not asked.topic.startswith(RETRY_PREFIX) else "PULL"
    queues = assignment.assign(asked, name, mode.pop_share_queues, ids, brokers)
    if queues is None:
        return ticket.reply(codes.SUCCESS, body=b"{}")
    assigned = [{"messageQueue": fastjson.queue(broker, asked.topic, queue_id), "mode": name} for broker, queue_id in queues]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"messageQueueAssignments": assigned}))
