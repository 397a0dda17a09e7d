"""Checks of a SUBSCRIBE: malformed filters, and more filters than a session may have, are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.client.mqtt_session import MqttSubscription
from domain.errors import ErrorCode, Failure
from domain.filter.path_matching import is_filter
from gateway.routing.routes import topic_of_filter
from gateway.usecase.sessions.mqtt_session import MqttSession

DEEP_LEVELS: Final = 16
"""A topic filter with more levels is a deep one."""
DEEP_MAX: Final = 128
"""Deep filters of one session: the routing tables hold some 350 bytes for each level."""
SUBSCRIPTIONS_MAX: Final = 1_024
"""Subscriptions of one session, shared subscriptions included."""
WILD_SHARES_MAX: Final = 16
"""Shared subscriptions of one session that begin with a wildcard: each makes the session a member for up to 256 topics."""


def refusal(session: MqttSession, subscription: MqttSubscription, coming: Sequence[MqttSubscription]) -> Failure | None:
    """The refusal of a subscription; None: it is accepted. `coming`: shared subscriptions that are about to be added."""
    pattern = subscription.pattern
    if subscription.refused is not None:
        return subscription.refused
    if not is_filter(pattern):
        return Failure(ErrorCode.FILTER_ILLEGAL, f"{pattern!r} is not a topic filter")
    known = subscription.name in (session.shared_subscriptions if subscription.group else session.subscriptions)
    if not known and len(session.subscriptions) + len(session.shared_subscriptions) + len(coming) >= SUBSCRIPTIONS_MAX:
        return Failure(ErrorCode.QUOTA, f"a session may have {SUBSCRIPTIONS_MAX} filters")
    if not known and subscription.group and topic_of_filter(pattern) == "" and _wild_shares(session, coming) >= WILD_SHARES_MAX:
        return Failure(ErrorCode.QUOTA, f"a session may have {WILD_SHARES_MAX} shared subscriptions that begin with a wildcard")
    if not known and _is_deep(pattern) and sum(map(_is_deep, session.subscriptions)) >= DEEP_MAX:
        return Failure(ErrorCode.QUOTA, f"a session may have {DEEP_MAX} filters with more than {DEEP_LEVELS} levels")
    return None


def _wild_shares(session: MqttSession, coming: Sequence[MqttSubscription]) -> int:
    return sum([topic_of_filter(each.pattern) == "" for each in (*session.shared_subscriptions.values(), *coming)])


def _is_deep(pattern: str) -> bool:
    return pattern.count("/") >= DEEP_LEVELS
