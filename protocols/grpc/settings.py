"""Merged settings: those of the client, with the values that the server decides.

RocketMQ's proxy (GrpcClientSettingsManager) returns these fields, and its SDKs do not start without them: a producer without
`max_body_size` refuses every message, a push consumer without a backoff strategy or a batch size does not poll.
"""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.delivery.retry import EXPONENTIAL
from domain.topic import attribute, lite
from domain.topic.topic import Group
from protocols.grpc.messages import messaging_pb2 as pb

PRODUCER_ATTEMPTS: Final = 3
LONG_POLLING_S: Final = 20
_INT_MAX: Final = 0x7FFFFFFF


def for_producer(sent: pb.Settings) -> pb.Settings:
    """Merged settings of a producer."""
    merged = pb.Settings()
    merged.CopyFrom(sent)
    merged.publishing.max_body_size = limits.BODY_BYTES_MAX
    merged.publishing.validate_message_type = True
    policy = merged.backoff_policy
    policy.Clear()
    policy.max_attempts = PRODUCER_ATTEMPTS
    policy.exponential_backoff.initial.nanos = 10_000_000
    policy.exponential_backoff.max.seconds = 1
    policy.exponential_backoff.multiplier = 2
    merged.metric.on = False
    return merged


def for_consumer(sent: pb.Settings, group: Group) -> pb.Settings:
    """Merged settings of a member of `group`."""
    merged = pb.Settings()
    merged.CopyFrom(sent)
    merged.subscription.fifo = group.orderly
    merged.subscription.receive_batch_size = limits.RECEIVE_MESSAGES_MAX
    merged.subscription.long_polling_timeout.seconds = LONG_POLLING_S
    if sent.client_type == pb.LITE_PUSH_CONSUMER:
        quota = attribute.number(group.attributes, attribute.CLIENT_QUOTA, lite.CLIENT_QUOTA)
        merged.subscription.lite_subscription_quota = min(quota, _INT_MAX) if quota >= 0 else _INT_MAX
        merged.subscription.max_lite_topic_size = lite.NAME_CHARS_MAX
    policy = merged.backoff_policy
    policy.Clear()
    policy.max_attempts = group.attempts_max
    retry = group.retry
    if retry.kind == EXPONENTIAL:
        backoff = policy.exponential_backoff
        backoff.initial.FromMilliseconds(retry.initial_ms)
        backoff.max.FromMilliseconds(retry.max_ms)
        backoff.multiplier = retry.multiplier
    else:
        for step_ms in retry.steps_ms:
            policy.customized_backoff.next.add().FromMilliseconds(step_ms)
    merged.metric.on = False
    return merged
