"""Lite topics: SyncLiteSubscription, polls of lite push consumers, and the notice that a lite topic has a new owner.

RocketMQ's ClientActivity.syncLiteSubscription, ReceiveMessageActivity and NotifyUnsubscribeLiteCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from domain.command import Command, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Event, Leased, Refused
from domain.message.record import Record
from domain.topic import lite
from domain.topic.lite import LiteAction, LiteTaken, OffsetOption, OffsetOptionType, ReceiveLite, SyncSubscription
from protocols.grpc import status, translate_in, wire
from protocols.grpc.call import MESSAGE_BYTES_MAX, Call, Method, OpenCalls
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.grpc.session import Client
from protocols.grpc.translate_in import Refusal

NAMES_MAX: Final = 4_096
"""Lite topics in one request."""
NAMES_AT_ONCE: Final = 8
"""Lite topics that one command adds or removes: a position may have to be set for each."""
UNACKED_MAX: Final = 100
"""Unacknowledged messages at which a lite push consumer's polls are refused (ProxyConfig.maxLiteRenewNumPerChannel)."""

_ACTIONS: Final[dict[int, LiteAction]] = {
    pb.PARTIAL_ADD: LiteAction.PARTIAL_ADD,
    pb.PARTIAL_REMOVE: LiteAction.PARTIAL_REMOVE,
    pb.COMPLETE_ADD: LiteAction.COMPLETE_ADD,
    pb.COMPLETE_REMOVE: LiteAction.COMPLETE_REMOVE,
}
_POLICIES: Final[dict[int, OffsetOptionType]] = {
    pb.OffsetOption.LAST: OffsetOptionType.LAST,
    pb.OffsetOption.MIN: OffsetOptionType.MIN,
    pb.OffsetOption.MAX: OffsetOptionType.MAX,
}


def begin_sync(context: OpenCalls, call: Call, body: bytes, now: int) -> Sequence[Command]:
    """One SyncSubscription. The offset option applies to PARTIAL_ADD only."""
    request = pb.SyncLiteSubscriptionRequest.FromString(body)
    topic, group = call.named(request.topic), call.named(request.group)
    refusal = translate_in.topic_of(topic) or translate_in.group_of(group)
    action = _ACTIONS.get(request.action)
    names = list(request.lite_topic_set)
    context.backlog.charge(len(names) >> 2)
    if refusal is None and (action is None or len(names) > NAMES_MAX):
        refusal = Refusal(pb.BAD_REQUEST, f"action {request.action} with {len(names)} lite topics")
    if refusal is None and action is LiteAction.PARTIAL_ADD:
        refusal = next((translate_in.lite_of(name) for name in names if not lite.is_name(name)), None)
    if refusal is not None or action is None:
        context.refuse(call, *(refusal or Refusal(pb.BAD_REQUEST, "")))
        return ()
    start = _start(request.offset_option) if action is LiteAction.PARTIAL_ADD and request.HasField("offset_option") else None
    at_once = NAMES_AT_ONCE if action in (LiteAction.PARTIAL_ADD, LiteAction.PARTIAL_REMOVE) else NAMES_MAX
    parts = [names[at : at + at_once] for at in range(0, len(names), at_once)] or [names]
    call.state = len(parts)
    ticket = context.ticket(call)
    return [SyncSubscription(ticket, call.client_id, group, topic, action, part, start) for part in parts]


def _start(option: pb.OffsetOption) -> OffsetOption | None:
    kind = option.WhichOneof("offset_type")
    if kind == "policy":
        return OffsetOption(_POLICIES.get(option.policy, OffsetOptionType.LAST))
    if kind == "offset":
        return OffsetOption(OffsetOptionType.OFFSET, option.offset)
    if kind == "tail_n":
        return OffsetOption(OffsetOptionType.TAIL, option.tail_n)
    return OffsetOption(OffsetOptionType.TIME, option.timestamp) if kind == "timestamp" else None


def finish_sync(context: OpenCalls, call: Call, event: Event, now: int) -> None:
    """Done -> OK, when all parts are done. The first one that is refused is the answer."""
    if context.is_closed(call):
        return
    left = call.state = cast(int, call.state) - 1
    if isinstance(event, Refused):
        context.reply(call, status.status(*_refused(event.failure)))
    elif left == 0:
        context.reply(call, status.STATUS_OK)


def _refused(failure: Failure) -> tuple[int, str]:
    code, text = status.of(failure)
    return (pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED if failure.code is ErrorCode.QUOTA else code), text


def poll(context: OpenCalls, call: Call, client: Client, asked: Receive) -> Sequence[Command]:
    """The command of a lite push consumer's ReceiveMessage: one poll for all its lite topics."""
    if len(client.leases) > UNACKED_MAX:
        context.refuse(call, pb.FORBIDDEN, f"client {call.client_id} has not acknowledged {len(client.leases)} messages")
        return ()
    return (
        ReceiveLite(
            asked.ticket, call.client_id, asked.group, asked.topic, asked.limit, asked.invisible_ms, asked.wait_ms,
            asked.attempt_id,
        ),
    )  # fmt: skip


def queue_of(topic: str, leased: Leased) -> str:
    """The name of the lite queue that a received message is settled in."""
    return lite.queue_name(topic, lite.name_in(Record(leased.record).properties))


def named_queue(topic: str, lite_topic: str) -> str:
    """The queue that a request names: that of its lite topic, or the topic when it has none."""
    return lite.queue_name(topic, lite_topic) if lite_topic else topic


def remove_subscriptions(context: OpenCalls, call: Call, client: Client) -> SyncSubscription:
    """The command that removes all lite subscriptions of a client."""
    topic = next(iter(client.subscriptions), None)
    name = topic.topic if topic is not None else ""
    return SyncSubscription(context.ticket(call), client.client_id, client.group, name, LiteAction.COMPLETE_REMOVE)


def unsubscribe_command(event: LiteTaken) -> bytes:
    """A TelemetryCommand with notify_unsubscribe_lite_command."""
    return status.STATUS_OK + wire.text(b"\x4a", wire.text(b"\x0a", event.lite.encode()))


SYNC_LITE_SUBSCRIPTION = Method(
    "SyncLiteSubscription", begin_sync, finish_sync, weight=8, fields_max=NAMES_MAX + 8, bytes_max=MESSAGE_BYTES_MAX
)
