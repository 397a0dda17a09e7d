"""The retry policy of a consumer group in JSON (RocketMQ's GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.delivery.retry import CUSTOMIZED, DEFAULT, DELAY_MS_MAX, EXPONENTIAL, STEPS_MAX, RetryPolicy
from protocols.remoting import codes
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import bean
from protocols.remoting.wire.bean import Bean

MULTIPLIER_MAX: Final = 1_000


def read(config: Bean) -> RetryPolicy:
    """The `groupRetryPolicy` of a SubscriptionGroupConfig; absent values have their defaults. Raises RequestError."""
    kind = bean.text(config, "type", CUSTOMIZED)
    if kind == CUSTOMIZED:
        listed = bean.table(config, "customizedRetryPolicy").get("next")
        return DEFAULT if listed is None else RetryPolicy(steps_ms=_steps(listed))
    if kind != EXPONENTIAL:
        raise RequestError(codes.INVALID_PARAMETER, f"a retry policy is {CUSTOMIZED} or {EXPONENTIAL}, not {kind[:40]}")
    found = bean.table(config, "exponentialRetryPolicy")
    initial_ms = _delay("initial", bean.number(found, "initial", DEFAULT.initial_ms))
    max_ms = _delay("max", bean.number(found, "max", DEFAULT.max_ms))
    multiplier = found.get("multiplier", DEFAULT.multiplier)
    if isinstance(multiplier, bool) or not isinstance(multiplier, int) or not 1 <= multiplier <= MULTIPLIER_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"the multiplier of a retry policy is 1 to {MULTIPLIER_MAX}")
    return RetryPolicy(EXPONENTIAL, initial_ms=initial_ms, max_ms=max_ms, multiplier=multiplier)


def _steps(listed: object) -> tuple[int, ...]:
    if not isinstance(listed, list) or not 0 < len(listed) <= STEPS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"a retry policy lists 1 to {STEPS_MAX} delays")
    return tuple(_delay("next", each) for each in listed)


def _delay(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= DELAY_MS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{name} of a retry policy: milliseconds, 1 to {DELAY_MS_MAX}")
    return value


def to_bean(policy: RetryPolicy) -> Mapping[str, object]:
    """A retry policy -> `groupRetryPolicy`. The default policy has its type without its delays, as in RocketMQ."""
    if policy == DEFAULT:
        return {"type": CUSTOMIZED}
    if policy.kind == EXPONENTIAL:
        found = {"initial": policy.initial_ms, "max": policy.max_ms, "multiplier": policy.multiplier}
        return {"type": EXPONENTIAL, "exponentialRetryPolicy": found}
    return {"type": CUSTOMIZED, "customizedRetryPolicy": {"next": list(policy.steps_ms)}}
