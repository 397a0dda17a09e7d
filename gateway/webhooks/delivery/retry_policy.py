"""What an answer of a sink means, and when a message is tried again (edge section 3.3; RFC 9110, 10.2.3 and 15)."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from domain.ports import Entropy
from domain.subscription.courier import SinkAnswer, Trouble
from domain.subscription.subscription import RETRY_MS_MAX, SinkRetry

RETRIED: Final = frozenset((408, 425, 429))
"""Statuses below 500 after which a message is tried again; so it is after all from 500 on."""
JITTER: Final = 0.2
"""A delay is longer or shorter by up to this part of it."""
_SECONDS_DIGITS_MAX: Final = 12
ASKED_MS_MAX: Final = 10 ** (_SECONDS_DIGITS_MAX + 3)
"""No Retry-After is taken for longer: some 30,000 years."""


class Verdict(StrEnum):
    """What becomes of the messages of an attempt."""

    DELIVERED = "delivered"
    RETRY = "retried"
    DEAD = "dead-letter"
    SUSPEND = "suspended"


def verdict(answer: SinkAnswer) -> Verdict:
    """2xx: delivered. 408, 425, 429, 5xx, no answer: again. 410: the subscription is suspended. Others: a dead letter."""
    status = answer.status
    if answer.trouble is not None:
        return Verdict.SUSPEND if answer.trouble is Trouble.REFUSED_ADDRESS else Verdict.RETRY
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == 410:
        return Verdict.SUSPEND
    return Verdict.RETRY if status in RETRIED or status >= 500 else Verdict.DEAD


def delay_ms(policy: SinkRetry, number: int, entropy: Entropy) -> int:
    """The delay behind try `number` (from 1), with jitter; at least 1 ms, at most RETRY_MS_MAX."""
    grown = policy.delay_ms * number if policy.linear else policy.delay_ms << min(number - 1, 40)
    bounded = min(grown, RETRY_MS_MAX)
    return max(1, min(RETRY_MS_MAX, int(bounded * (1 - JITTER + 2 * JITTER * entropy.random()))))


def retry_after_ms(fields: Sequence[tuple[str, str]], now_ms: int) -> int:
    """Retry-After of an answer, seconds or a date, in ms from now, at most ASKED_MS_MAX; 0: there is none, or it is past."""
    value = next((value.strip() for name, value in fields if name == "retry-after"), "")
    if not value:
        return 0
    if value.isascii() and value.isdigit():
        return ASKED_MS_MAX if len(value) > _SECONDS_DIGITS_MAX else int(value) * 1_000
    try:
        due_ms = int(parsedate_to_datetime(value).timestamp() * 1_000)
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(0, due_ms - now_ms)
