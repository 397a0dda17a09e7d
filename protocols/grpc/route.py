"""QueryRoute and QueryAssignment: the queues of a topic and their endpoint, which is this node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast, final

from domain import limits
from domain.admin.group import GroupFound, QueryGroup
from domain.admin.topic import QueryTopic, TopicFound
from domain.command import Command
from domain.event import Event, Refused
from domain.topic.topic import PERM_READ, PERM_WRITE, Group, Topic
from protocols.grpc import status, translate_in, wire
from protocols.grpc.call import Call, Method, OpenCalls
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.translate_in import Refusal

ENDPOINTS_BYTES_MAX: Final = 4 * 1024
"""Bytes of the endpoints that a request names; the answer repeats them for each queue."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
QUEUES_AT_ONCE: Final = 32
"""Queues of an answer that is made at once."""
QUEUES_PER_TURN: Final = 2_048
"""Queues of a longer answer that are encoded in one turn of the loop."""
MASTER: Final = 0
ANY_QUEUE: Final = -1

_MIXED_TYPES: Final = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION)
"""Answer of RocketMQ's proxy for a MIXED topic (RouteActivity.parseTopicMessageType); SDKs send no other types."""
_TYPES: Final[dict[str, tuple[pb.MessageType, ...]]] = {
    "NORMAL": (pb.NORMAL,),
    "FIFO": (pb.FIFO,),
    "DELAY": (pb.DELAY,),
    "TRANSACTION": (pb.TRANSACTION,),
    "PRIORITY": (pb.PRIORITY,),
    "LITE": (pb.LITE,),
    "MIXED": _MIXED_TYPES,
}


def begin_route(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One QueryTopic, which creates the topic where the policy allows."""
    request = pb.QueryRouteRequest.FromString(body)
    topic = call.named(request.topic)
    if context.refuses(call, translate_in.topic_of(topic) or _endpoints(request.endpoints)):
        return ()
    call.state = request
    return (QueryTopic(context.ticket(call), topic, create=True),)


def finish_route(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """TopicFound -> its queues in a fixed order, all at the endpoint that the client has used."""
    if isinstance(event, Refused):
        context.reply_failure(call, event.failure)
        return
    topic = cast(TopicFound, event).topic
    request = cast(pb.QueryRouteRequest, call.state)
    queue = _message_queue(context, request.topic, request.endpoints)
    queue.accept_message_types.extend(_accepted(topic))
    _answer(context, call, _Queues(queue, _split(topic)))


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


def _message_queue(context: OpenCalls, topic: pb.Resource, endpoints: pb.Endpoints) -> pb.MessageQueue:
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


@final
class _Queues:
    """The queues of an answer: they differ in their id and permission only.

    count      number of queues; 0: one entry, for any queue
    _ends      permission -> id at which the queues with it end; the first ones begin at 0
    _inside    tag of the field of an entry that holds the queue; b"": the entry is the queue
    """

    __slots__ = ("_ends", "_head", "_inside", "_next", "_queue", "count", "encoded")

    def __init__(self, queue: pb.MessageQueue, parts: list[tuple[pb.Permission, int]], inside: bytes = b"") -> None:
        self._head = wire.text(b"\x0a", queue.topic.SerializeToString())
        queue.ClearField("topic")
        self._queue = queue
        self._inside = inside
        self._ends: list[tuple[pb.Permission, int]] = []
        self._next = 0
        self.count = 0
        self.encoded: list[bytes] = []
        for permission, count in parts:
            self.count += count
            self._ends.append((permission, self.count))

    @property
    def size(self) -> int:
        """Bytes of the answer, about."""
        entry = len(self._head) + len(self._queue.SerializeToString()) + 16
        return max(1, self.count) * entry

    def encode(self, most: int) -> bool:
        """Encode the next `most` queues; True when they were the last."""
        if self.count == 0:
            self._queue.permission = self._ends[0][0]
            self.encoded.append(self._entry(ANY_QUEUE, self._queue.SerializeToString()))
            return True
        for permission, end in self._ends:
            stop = min(end, self._next + most)
            if stop > self._next:
                self._queue.permission = permission
                tail = self._queue.SerializeToString()
                self.encoded += [self._entry(queue_id, tail) for queue_id in range(self._next, stop)]
                most -= stop - self._next
                self._next = stop
        return self._next == self.count

    def _entry(self, queue_id: int, tail: bytes) -> bytes:
        number = b"\x10" + wire.varint(queue_id & 0xFFFF_FFFF_FFFF_FFFF) if queue_id else b""
        queue = self._head + number + tail
        return wire.text(b"\x12", wire.text(self._inside, queue) if self._inside else queue)


def _answer(context: OpenCalls, call: Call, queues: _Queues) -> None:
    """Answer with a list of queues; a long one over several turns of the loop."""
    unsent = context.output.pending(0)
    if queues.size > ANSWER_BYTES_MAX:
        text = f"{queues.count} queues with these endpoints are more than {ANSWER_BYTES_MAX} bytes"
        context.refuse(call, pb.PAYLOAD_TOO_LARGE, text)
    elif queues.size > limits.SMALL_ANSWER_BYTES and context.output.is_full():
        context.refuse(call, pb.TOO_MANY_REQUESTS, f"{unsent} bytes of answers wait for this client to read them: ask again")
    elif queues.count <= QUEUES_AT_ONCE:
        queues.encode(QUEUES_AT_ONCE)
        context.reply(call, status.STATUS_OK + b"".join(queues.encoded))
    else:
        context.backlog.add(partial(_encode, context, call, queues))


def _encode(context: OpenCalls, call: Call, queues: _Queues, now: int) -> Sequence[Command]:
    """Encode the next queues of a long answer."""
    if context.is_closed(call):
        return ()
    if not queues.encoded and context.output.is_full():
        _answer(context, call, queues)
        return ()
    context.backlog.charge(QUEUES_PER_TURN >> 3)
    if queues.encode(QUEUES_PER_TURN):
        context.reply(call, status.STATUS_OK + b"".join(queues.encoded))
    else:
        context.backlog.go_on(partial(_encode, context, call, queues))
    return ()


def _endpoints(endpoints: pb.Endpoints) -> Refusal | None:
    """Check the endpoints that a client has used."""
    size = len(endpoints.SerializeToString())
    if size > ENDPOINTS_BYTES_MAX:
        return Refusal(pb.BAD_REQUEST, f"the endpoints have {size} bytes, {ENDPOINTS_BYTES_MAX} are allowed")
    return None


@dataclass(slots=True)
class _Assignment:
    """A request, and what its answer needs of two events: None until found.

    failed   True: answered with a failure; the other event is ignored
    """

    request: pb.QueryAssignmentRequest
    topic: Topic | None = None
    group: Group | None = None
    failed: bool = False


def begin_assignment(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """QueryTopic and QueryGroup."""
    request = pb.QueryAssignmentRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    if context.refuses(call, translate_in.topic_of(topic) or translate_in.group_of(group) or _endpoints(request.endpoints)):
        return ()
    call.state = _Assignment(request)
    ticket = context.ticket(call)
    return (QueryTopic(ticket, topic, create=True), QueryGroup(ticket, group))


def finish_assignment(context: OpenCalls, call: Call, event: Event, now: int) -> None:
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
    queue = _message_queue(context, found.request.topic, found.request.endpoints)
    permission = pb.READ_WRITE if found.topic.perm & PERM_WRITE else pb.READ
    count = found.topic.read_queues if found.group.orderly else 0
    _answer(context, call, _Queues(queue, [(permission, count)], inside=b"\x0a"))


QUERY_ROUTE = Method("QueryRoute", begin_route, finish_route)
QUERY_ASSIGNMENT = Method("QueryAssignment", begin_assignment, finish_assignment)
