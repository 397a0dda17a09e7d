"""QueryRoute and QueryAssignment: the queues of a topic and their endpoint, which is this node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from domain.admin.group import GroupFound, QueryGroup
from domain.admin.topic import QueryTopic, TopicFound
from domain.command import Command
from domain.event import Event, Refused
from domain.topic import PERM_READ, PERM_WRITE, Group, Topic
from protocols.grpc import translate_in
from protocols.grpc.call import Call, CallContext, Method
from protocols.grpc.messages import messaging_pb2 as pb

MASTER: Final = 0
ANY_QUEUE: Final = -1

_MIXED_TYPES: Final = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION)
"""What RocketMQ's proxy answers for a MIXED topic (RouteActivity.parseTopicMessageType); SDKs send no other types."""
_TYPES: Final[dict[str, tuple[pb.MessageType, ...]]] = {
    "NORMAL": (pb.NORMAL,),
    "FIFO": (pb.FIFO,),
    "DELAY": (pb.DELAY,),
    "TRANSACTION": (pb.TRANSACTION,),
    "PRIORITY": (pb.PRIORITY,),
    "LITE": (pb.LITE,),
    "MIXED": _MIXED_TYPES,
}


def begin_route(context: CallContext, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One QueryTopic, which creates the topic where the policy allows."""
    request = pb.QueryRouteRequest.FromString(body)
    topic = call.named(request.topic)
    refusal = translate_in.topic_of(topic)
    if refusal is not None:
        context.refuse(call, *refusal)
        return ()
    call.state = request
    return (QueryTopic(context.ticket(call), topic, create=True),)


def finish_route(context: CallContext, call: Call, event: Event, now: int) -> None:
    """TopicFound -> its queues in a fixed order, all at the endpoint that the client has used."""
    if isinstance(event, Refused):
        context.reply_failure(call, event.failure)
        return
    topic = cast(TopicFound, event).topic
    request = cast(pb.QueryRouteRequest, call.state)
    answer = pb.QueryRouteResponse()
    answer.status.code = pb.OK
    answer.status.message = "OK"
    queue = _message_queue(context, request.topic, request.endpoints)
    queue.accept_message_types.extend(_accepted(topic))
    queue_id = 0
    for permission, count in _split(topic):
        queue.permission = permission
        for _ in range(count):
            queue.id = queue_id
            answer.message_queues.add().CopyFrom(queue)
            queue_id += 1
    context.reply(call, answer.SerializeToString())


def _split(topic: Topic) -> list[tuple[pb.Permission, int]]:
    """Queues by permission, in the order in which RocketMQ's proxy numbers them (RouteActivity)."""
    read = topic.read_queues if topic.perm & PERM_READ else 0
    write = topic.write_queues if topic.perm & PERM_WRITE else 0
    both = min(read, write)
    if read == 0 and write == 0:
        return [(pb.NONE, max(1, topic.read_queues, topic.write_queues))]
    return [(pb.READ, read - both), (pb.WRITE, write - both), (pb.READ_WRITE, both)]


def _accepted(topic: Topic) -> tuple[pb.MessageType, ...]:
    """Message types that SDKs may send to the topic; SDKs refuse others before sending."""
    return _TYPES.get(topic.type, _MIXED_TYPES)


def _message_queue(context: CallContext, topic: pb.Resource, endpoints: pb.Endpoints) -> pb.MessageQueue:
    """A queue of this broker at the endpoint named in the request, else at the advertised one."""
    queue = pb.MessageQueue()
    queue.topic.CopyFrom(topic)
    broker = queue.broker
    broker.name = context.setting.broker
    broker.id = MASTER
    if endpoints.addresses and endpoints.scheme != pb.ADDRESS_SCHEME_UNSPECIFIED:
        broker.endpoints.CopyFrom(endpoints)
        return queue
    host = context.setting.host
    if ":" in host:
        broker.endpoints.scheme = pb.IPv6
    elif host.replace(".", "").isdigit():
        broker.endpoints.scheme = pb.IPv4
    else:
        broker.endpoints.scheme = pb.DOMAIN_NAME
    address = broker.endpoints.addresses.add()
    address.host = host
    address.port = context.setting.ports.get("grpc", context.peer.local_port)
    return queue


class _Assignment:
    """A request, and the two events that its answer needs.

    topic, group   None until found
    failed         True: answered with a failure; the other event is ignored
    """

    __slots__ = ("failed", "group", "request", "topic")

    def __init__(self, request: pb.QueryAssignmentRequest) -> None:
        self.request = request
        self.topic: Topic | None = None
        self.group: Group | None = None
        self.failed = False


def begin_assignment(context: CallContext, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """QueryTopic and QueryGroup."""
    request = pb.QueryAssignmentRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    refusal = translate_in.topic_of(topic) or translate_in.group_of(group)
    if refusal is not None:
        context.refuse(call, *refusal)
        return ()
    call.state = _Assignment(request)
    ticket = context.ticket(call)
    return (QueryTopic(ticket, topic, create=True), QueryGroup(ticket, group))


def finish_assignment(context: CallContext, call: Call, event: Event, now: int) -> None:
    """Both found -> the same assignment for every member: one of any queue, or one a queue for a FIFO group."""
    found = cast(_Assignment, call.state)
    if found.failed:
        return
    if isinstance(event, Refused):
        found.failed = True
        context.reply_failure(call, event.failure)
        return
    if isinstance(event, TopicFound):
        found.topic = event.topic
    else:
        found.group = cast(GroupFound, event).group
    if found.topic is None or found.group is None:
        return
    if not found.topic.perm & PERM_READ or found.topic.read_queues == 0:
        context.refuse(call, pb.FORBIDDEN, "no readable queue")
        return
    answer = pb.QueryAssignmentResponse()
    answer.status.code = pb.OK
    answer.status.message = "OK"
    queue = _message_queue(context, found.request.topic, found.request.endpoints)
    queue.permission = pb.READ_WRITE if found.topic.perm & PERM_WRITE else pb.READ
    for queue_id in range(found.topic.read_queues) if found.group.orderly else (ANY_QUEUE,):
        queue.id = queue_id
        answer.assignments.add().message_queue.CopyFrom(queue)
    context.reply(call, answer.SerializeToString())


QUERY_ROUTE = Method("QueryRoute", begin_route, finish_route)
QUERY_ASSIGNMENT = Method("QueryAssignment", begin_assignment, finish_assignment)
