"""The retry policy of a consumer group: how long a message waits before its next delivery (RocketMQ's GroupRetryPolicy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CUSTOMIZED: Final = "CUSTOMIZED"
EXPONENTIAL: Final = "EXPONENTIAL"
STEPS_MAX: Final = 128
"""Steps of a customized policy at most."""
DELAY_MS_MAX: Final = 366 * 86_400 * 1000
EXPONENT_MAX: Final = 32

STEPS_MS: Final = (
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000, 540_000, 600_000,
    1_200_000, 1_800_000, 3_600_000, 7_200_000,
)  # fmt: skip
SKIPPED: Final = 2
"""Redeliveries begin with the third step of a customized policy (CustomizedRetryPolicy)."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays by the number of redeliveries so far, in milliseconds.

    kind         CUSTOMIZED: the delays are `steps_ms`, the last one for all further redeliveries
                 EXPONENTIAL: the delay is `initial_ms` * `multiplier` ** redeliveries, at most `max_ms`
    steps_ms     delays, at most STEPS_MAX
    multiplier   from one delay to the next
    """

    kind: str = CUSTOMIZED
    steps_ms: tuple[int, ...] = STEPS_MS
    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: int = 2

    def delay_ms(self, times: int) -> int:
        """The delay before redelivery `times` + 1; `times` is 0 before the first one."""
        times = max(times, 0)
        if self.kind == EXPONENTIAL:
            most: int = self.initial_ms * self.multiplier ** min(times, EXPONENT_MAX)
            return min(most, self.max_ms)
        return self.steps_ms[min(times + SKIPPED, len(self.steps_ms) - 1)]


DEFAULT: Final = RetryPolicy()
