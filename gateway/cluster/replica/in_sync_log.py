"""Log lines about replicas that are out of sync, written by the leader."""

from __future__ import annotations

import logging
from typing import Final, final

from domain.controller.group import StoreGroup

log: Final = logging.getLogger("headgate.replica")


@final
class InSyncLog:
    """Writes one log line whenever the set of replicas out of sync changes."""

    def __init__(self) -> None:
        self._lacking: tuple[int, ...] = ()

    def heard(self, group: StoreGroup) -> None:
        """Compare the current state of the group with the last one."""
        lacking = group.lacking
        if lacking == self._lacking:
            return
        self._lacking = lacking
        if lacking:
            log.warning(
                "store group %s is below its full strength: not in sync are replicas %s; %s are", group.name,
                ", ".join(map(str, lacking)), len(group.members),
            )  # fmt: skip
        else:
            log.warning("store group %s is at its full strength: %s replicas are in sync", group.name, len(group.members))
