"""State of a replica whose log starts again, since its leader cannot continue it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.ports import Entropy
from domain.replication.ports import FollowerLog

log: Final = logging.getLogger("headgate.replica")


@final
class RestartingState:
    """A replica between two logs. It registers the new one."""

    def __init__(self, follower: FollowerLog, entropy: Entropy) -> None:
        self._follower = follower
        self._entropy = entropy

    @property
    def obstacle(self) -> str:
        """The reason why the log may not be dropped, text for people; "": it may."""
        follower = self._follower
        if not follower.foreign or follower.written <= follower.first:
            return ""
        return (
            f"the data directory has {follower.written - follower.first:,} bytes of a log that was never replicated, and "
            "the store group has another log. Give this replica an empty directory (--data) if it may take the group's log"
        )

    def start(self, group: str, first: int, behind: bool, done: Callable[[Exception | None], None]) -> None:
        """Restart the log at `first`, then call `done`. `group`: name of the store group; `behind` as in Following."""
        follower = self._follower
        log.warning(
            "store group %s: this log, which ends at %s, cannot be continued by its leader: it begins anew at %s",
            group, follower.written, first,
        )  # fmt: skip
        follower.restart_log(first, int.from_bytes(self._entropy.token(8), "big") >> 1 | 1, behind, done)

    def leave(self) -> None:
        """The restart goes on: its end is ignored."""

    def doing(self, group: str) -> str:
        """The activity of this replica of `group`, text for people."""
        return f"{group} has no leader: this replica waits for an election"
