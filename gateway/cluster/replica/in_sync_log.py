"""Whether a store group is at its full strength, in the log of its leader."""

from __future__ import annotations

import logging
from typing import Final, final

from domain.controller.group import StoreGroup

log: Final = logging.getLogger("headgate.replica")


@final
class InSyncLog:
    """One line in the log whenever the replicas that are not in sync are others."""

    def __init__(self) -> None:
        self._lacking: tuple[int, ...] = ()

    def heard(self, group: StoreGroup) -> None:
        """The group is like this now."""
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
