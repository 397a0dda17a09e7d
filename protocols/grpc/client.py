"""Telemetry, Heartbeat, NotifyClientTermination: settings of clients, their heartbeats and their departure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from domain.access.access import GROUP, PUB, SUB, TOPIC, CheckAccess, Need
from domain.address import endpoint_text
from domain.admin.group import GroupFound, QueryGroup
from domain.client.membership import Leave
from domain.command import Command, Extend
from domain.event import Done, Event, Refused
from domain.filter.sql import EXPRESSION_CHARS_MAX
from domain.topic.topic import Group
from protocols.grpc import framing, lite, settings, status, translate_in
from protocols.grpc.call import MESSAGE_BYTES_MAX, Call, Method, OpenCalls, finish_done
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.receive import filter_of
from protocols.grpc.session import Client
from protocols.grpc.translate_in import Refusal

SETTINGS_BYTES_MAX: Final = 256 * 1024
TOPICS_MAX: Final = 2_048
"""Topics of one producer's settings."""
SUBSCRIPTIONS_MAX: Final = 1_024
"""Subscriptions of one consumer's settings."""
SQL_MAX: Final = 128
"""Subscriptions with a SQL92 expression."""
SQL_CHARS_MAX: Final = EXPRESSION_CHARS_MAX
"""Characters of all SQL92 expressions of one client's settings, as many as one expression may have."""
SERVED: Final = (pb.PRODUCER, pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.LITE_PUSH_CONSUMER)
STACKS_FIELD: Final = 3
"""Number of TelemetryCommand.thread_stack_trace."""
GIVE_BACK_MS: Final = 1_000

_CONSUMERS: Final = (pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.LITE_PUSH_CONSUMER)


def begin_telemetry(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One TelemetryCommand of the client. Settings are answered with merged settings; the others answer an inquiry.

    Settings of more than SETTINGS_BYTES_MAX, or invalid ones, end the stream with INVALID_ARGUMENT.
    """
    command = pb.TelemetryCommand.FromString(body)
    if not command.HasField("settings"):
        return context.inquiries.read_answer(command, now)
    sent = command.settings
    if len(body) > SETTINGS_BYTES_MAX:
        context.fail(call, framing.INVALID_ARGUMENT, f"settings of {len(body)} bytes, {SETTINGS_BYTES_MAX} are allowed")
        return ()
    kind = sent.WhichOneof("pub_sub")
    refusal = _refusal(context, call, sent, kind)
    if refusal is not None:
        context.fail(call, framing.INVALID_ARGUMENT, refusal.text)
        return ()
    context.backlog.charge(_weight(sent))
    client = Client(call, sent, now, context.setting.wall_ms(), endpoint_text(context.peer.host, context.peer.port))
    asked: tuple[Command, ...] = ()
    if context.setting.authority is not None:
        asked = (CheckAccess(context.ticket(call), _needs(client)),)
    elif not _register(context, call, client, now):
        return ()
    heartbeat = client.heartbeat(context.ticket(call), wait=False)
    if kind == "publishing" and not asked:
        context.push(call, _settings_command(settings.for_producer(sent)))
        return (heartbeat,)
    if call.state is None:
        call.state = []
    cast(list[tuple[Client, pb.Settings]], call.state).append((client, sent))
    if kind == "publishing":
        return (heartbeat, *asked)
    return (heartbeat, *asked, QueryGroup(context.ticket(call), client.group))


def _register(context: OpenCalls, call: Call, client: Client, now: int) -> bool:
    """Store the client with its settings. Called after the access check: a refused client never replaces another one."""
    if context.sessions.put(client, now):
        return True
    context.fail(call, framing.RESOURCE_EXHAUSTED, "too many clients")
    return False


def _needs(client: Client) -> list[Need]:
    """The rights that the client's settings require (RocketMQ's DefaultAuthorizationContextBuilder)."""
    wanted = [Need(TOPIC, topic, (PUB,)) for topic in client.topics]
    wanted += [Need(TOPIC, each.topic, (SUB,)) for each in client.subscriptions]
    return [Need(GROUP, client.group, (SUB,)), *wanted] if client.group else wanted


def finish_telemetry(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """GroupFound of a consumer, or Done for the rights of a producer -> merged settings, for the oldest pending settings."""
    waiting = cast(list[tuple[Client, pb.Settings]], call.state)
    if not isinstance(event, Done | GroupFound | Refused) or (isinstance(event, Done) and waiting[0][0].group):
        return  # the rights of a consumer: GroupFound follows
    client, sent = waiting.pop(0)
    if isinstance(event, Refused):
        if event.failure.denied:
            context.push(call, status.status(*status.of(event.failure)))
            context.close(call)
        else:
            context.fail(call, framing.INVALID_ARGUMENT, status.of(event.failure)[1], counted=True)
        return
    if context.setting.authority is not None and not _register(context, call, client, now):
        return
    if isinstance(event, Done):
        context.push(call, _settings_command(settings.for_producer(sent)))
    else:
        group: Group = event.group
        client.fifo = group.orderly
        client.retry = group.retry
        context.push(call, _settings_command(settings.for_consumer(sent, group)))
    if call.half_closed and not waiting and not call.waits:
        context.close(call)


def _settings_command(merged: pb.Settings) -> bytes:
    command = pb.TelemetryCommand()
    command.status.code = pb.OK
    command.status.message = "OK"
    command.settings.CopyFrom(merged)
    return cast(bytes, command.SerializeToString())


def _refusal(context: OpenCalls, call: Call, sent: pb.Settings, kind: str | None) -> Refusal | None:
    """The first invalid value of settings (ClientActivity), None when all are valid."""
    if kind is None:
        return Refusal(pb.BAD_REQUEST, "settings without publishing or subscription")
    if sent.client_type not in SERVED or (sent.client_type in _CONSUMERS) != (kind == "subscription"):
        return Refusal(pb.UNRECOGNIZED_CLIENT_TYPE, f"client type {sent.client_type} with {kind} is not served")
    if kind == "publishing":
        if len(sent.publishing.topics) > TOPICS_MAX:
            text = f"settings of {len(sent.publishing.topics)} topics, {TOPICS_MAX} are allowed"
            return Refusal(pb.BAD_REQUEST, text)
        for topic in sent.publishing.topics:
            refusal = translate_in.topic_of(call.named(topic))
            if refusal is not None:
                return refusal
        return None
    listed = sent.subscription.subscriptions
    if len(listed) > SUBSCRIPTIONS_MAX:
        return Refusal(pb.BAD_REQUEST, f"settings of {len(listed)} subscriptions, {SUBSCRIPTIONS_MAX} are allowed")
    sql = [len(each.expression.expression) for each in listed if each.expression.type == pb.SQL]
    if len(sql) > SQL_MAX or sum(sql) > SQL_CHARS_MAX:
        text = f"{len(sql)} SQL92 expressions of {sum(sql)} characters, {SQL_MAX} of {SQL_CHARS_MAX} are allowed"
        return Refusal(pb.BAD_REQUEST, text)
    for entry in sent.subscription.subscriptions:
        refusal = translate_in.topic_of(call.named(entry.topic))
        found = filter_of(context, entry.expression)
        if refusal is not None or isinstance(found, Refusal):
            return refusal or cast(Refusal, found)
    return translate_in.group_of(call.named(sent.subscription.group))


def _weight(sent: pb.Settings) -> int:
    """The work of settings beside their expressions, in units of the backlog."""
    return (len(sent.publishing.topics) + len(sent.subscription.subscriptions)) >> 1


def begin_heartbeat(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Heartbeat of the client's memberships. Refused before the client has sent settings."""
    pb.HeartbeatRequest.FromString(body)
    client = context.sessions.find(call.client_id)
    if client is None:
        context.refuse(call, pb.UNRECOGNIZED_CLIENT_TYPE, f"client {call.client_id} has sent no settings on a Telemetry stream")
        return ()
    client.seen_ns = now
    context.backlog.charge((len(client.topics) + len(client.subscriptions)) >> 1)
    beat = client.heartbeat(context.ticket(call), wait=True)
    if beat.producers and context.telemetry(call.client_id) is None:
        beat.producers = []  # checks and inquiries need the producer's Telemetry stream, which is on another connection
    return (beat,)


def begin_termination(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """Leave the group. Leases under renewal are released after GIVE_BACK_MS; lite subscriptions are removed."""
    pb.NotifyClientTerminationRequest.FromString(body)
    client = context.sessions.drop(call.client_id)
    if client is None:
        context.refuse(call, pb.UNRECOGNIZED_CLIENT_TYPE, f"client {call.client_id} has sent no settings on a Telemetry stream")
        return ()
    for handle, lease in list(client.leases.items()):
        found = client.remove_lease(handle)
        if found is not None:
            context.enqueue(Extend(context.ticket(call), lease.group, lease.topic, [found], GIVE_BACK_MS))
    if client.kind == pb.LITE_PUSH_CONSUMER:
        context.enqueue(lite.remove_subscriptions(context, call, client))
    return (Leave(context.ticket(call), call.client_id, consumer_group=client.group),)


TELEMETRY: Method = Method(
    "Telemetry", begin_telemetry, finish_telemetry, streaming=True, weight=8, bytes_max=MESSAGE_BYTES_MAX, bulk=STACKS_FIELD
)
HEARTBEAT: Method = Method("Heartbeat", begin_heartbeat, finish_done)
NOTIFY_CLIENT_TERMINATION: Method = Method("NotifyClientTermination", begin_termination, finish_done)
