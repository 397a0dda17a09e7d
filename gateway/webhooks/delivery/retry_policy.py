"""Retry policy: the verdict on an answer of a sink, and the delay before the next try (RFC 9110, 10.2.3 and 15)."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from domain.ports import Entropy
from domain.subscription.courier import SinkAnswer, Trouble
from domain.subscription.subscription import RETRY_MS_MAX, SinkRetry

RETRIED: Final = frozenset((408, 425, 429))
"""Statuses below 500 that are retried; all statuses from 500 on are."""
JITTER: Final = 0.2
"""Largest change of a delay by jitter, as a fraction of it."""
_SECONDS_DIGITS_MAX: Final = 12
ASKED_MS_MAX: Final = 10 ** (_SECONDS_DIGITS_MAX + 3)
"""Upper limit of a Retry-After: some 30,000 years."""


class Verdict(StrEnum):
    """Settlement of the messages of an attempt, by the answer."""

    DELIVERED = "delivered"
    RETRY = "retried"
    DEAD = "dead-letter"
    SUSPEND = "suspended"


def verdict(answer: SinkAnswer) -> Verdict:
    """The verdict on an answer. 2xx: DELIVERED. 408, 425, 429, 5xx, no answer: RETRY. 410, refused address: SUSPEND. Other
    statuses: DEAD."""
    status = answer.status
    if answer.trouble is not None:
        return Verdict.SUSPEND if answer.trouble is Trouble.REFUSED_ADDRESS else Verdict.RETRY
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status == 410:
        return Verdict.SUSPEND
    return Verdict.RETRY if status in RETRIED or status >= 500 else Verdict.DEAD


def delay_ms(policy: SinkRetry, number: int, entropy: Entropy) -> int:
    """The delay after try `number` (from 1) in ms, with jitter; at least 1 ms, at most RETRY_MS_MAX."""
    grown = policy.delay_ms * number if policy.linear else policy.delay_ms << min(number - 1, 40)
    bounded = min(grown, RETRY_MS_MAX)
    return max(1, min(RETRY_MS_MAX, int(bounded * (1 - JITTER + 2 * JITTER * entropy.random()))))


def retry_after_ms(fields: Sequence[tuple[str, str]], now_ms: int) -> int:
    """The Retry-After of an answer, seconds or a date, in ms from `now_ms`; 0: it is absent, not valid or past."""
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
