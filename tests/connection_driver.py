"""What carries a session's answers in tests: nobody closes it, holds it back or sends it away unless the test means that."""

from __future__ import annotations

from domain.errors import Failure
from domain.event import Event


class StrictDriver:
    """Fails a test that closes, holds back or expels what it did not mean to; what is heard is left to who inherits."""

    def answer(self, event: Event) -> None:
        """Hear nothing."""

    def close(self) -> None:
        """Nobody should."""
        raise AssertionError("the gateway closed it")

    def throttle(self, until_ns: int) -> None:
        """Nobody should."""
        raise AssertionError("the gateway held it back")

    def revoke_access(self, failure: Failure) -> None:
        """Nobody should."""
        raise AssertionError(f"the gateway sent it away: {failure}")
