"""Connection drivers for tests."""

from __future__ import annotations

from domain.errors import Failure
from domain.event import Event


class StrictDriver:
    """Ignores events, and fails the test when the gateway closes or throttles the connection or revokes its access."""

    def answer(self, event: Event) -> None:
        """Ignore the event."""

    def close(self) -> None:
        """The test expects no close."""
        raise AssertionError("the gateway closed it")

    def throttle(self, until_ns: int) -> None:
        """The test expects no throttling."""
        raise AssertionError("the gateway held it back")

    def revoke_access(self, failure: Failure) -> None:
        """The test expects no revocation."""
        raise AssertionError(f"the gateway sent it away: {failure}")


class RecordingDriver(StrictDriver):
    """Records the events in `recorded`, and is as strict about all else."""

    def __init__(self) -> None:
        self.recorded: list[Event] = []

    def answer(self, event: Event) -> None:
        """Record the event."""
        self.recorded.append(event)
