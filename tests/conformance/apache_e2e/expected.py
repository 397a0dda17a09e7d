"""What is expected to go otherwise than the suite demands, and why: `expected.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from tests.conformance.apache_e2e.report import Outcome
from tests.interop.rocketmq.apache import TWO
from tests.interop.rocketmq.places import NODE

EXPECTED: Final = Path(__file__).with_name("expected.toml")
EITHER: Final = "either"
"""The table of tests that may go one way or the other."""
TWO_BROKERS: Final = "two brokers"
"""The table of what goes otherwise at every place before two brokers."""


class Verdict:
    """Compares each outcome with what is expected of its module at a place, and prints one line for it."""

    def __init__(self, module: str, at: str, brokers: int = len(TWO)) -> None:
        """`brokers`: of Apache's, where the place has any."""
        self.module = module
        listed = tomllib.loads(EXPECTED.read_text()).get(at, {}).get(module, {})
        self._either: dict[str, str] = listed.pop(EITHER, {})
        self._reasons: dict[str, str] = listed
        if at != NODE and brokers == len(TWO):
            self._reasons |= tomllib.loads(EXPECTED.read_text()).get(TWO_BROKERS, {}).get(module, {})
        self._tests = self._failed = self._surprises = 0

    def take(self, outcome: Outcome) -> None:
        """Print how it went; with what it said, when that is a surprise."""
        reason = self._reasons.get(outcome.name)
        wrong = bool(outcome.trouble)
        surprise = self.surprise(outcome)
        self._tests += 1
        self._failed += wrong
        self._surprises += surprise
        word = "skipped" if outcome.skipped else "FAILED" if wrong and surprise else "differs" if wrong else "ok"
        print(f"{self.module:<9} {outcome.name:<80} {word:<7} {outcome.seconds:6.1f} s", flush=True)
        if surprise:
            print(outcome.trouble if wrong else f"passes, although expected.toml has it fail: {reason}", flush=True)

    def surprise(self, outcome: Outcome) -> bool:
        """True when it went otherwise than expected."""
        wrong = bool(outcome.trouble)
        return wrong == (outcome.name not in self._reasons) and not outcome.skipped and outcome.name not in self._either

    def close(self) -> int:
        """Print the sum -> how many were a surprise. A module without a single test is one, too."""
        passed = self._tests - self._failed
        print(f"{self.module}: {passed} of {self._tests} as the suite demands, {self._surprises} surprises", flush=True)
        return self._surprises if self._tests else 1
