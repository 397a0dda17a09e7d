"""Keeps the log of a replica whole, whichever log that is just now: what is damaged comes from the other replicas."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.controller.group import StoreGroup
from domain.ports import Clock
from domain.replication.ports import DamagedPart, MendableLog
from gateway.cluster.replica.repair_sources import RepairSources
from store.replication.repairing import RepairCounts, Repairing

log: Final = logging.getLogger("headgate.replica")


@final
class LogRepairs:
    """The repairs of one log after the other."""

    def __init__(
        self,
        name: str,
        group: Callable[[], tuple[StoreGroup | None, int]],
        sources: RepairSources,
        clock: Clock,
        counts: RepairCounts,
    ) -> None:
        """`name`: of the store group; `group()`: how it is as last heard, and the id of this replica in it."""
        self._name = name
        self._group = group
        self._sources = sources
        self._clock = clock
        self._counts = counts
        self._repairing: Repairing | None = None

    def begin(self, parts: MendableLog) -> None:
        """Repair this log, and no other one any more."""
        self.rest()
        self._repairing = Repairing(parts, lambda: self._sources.of(*self._group()), self._clock, self._counts, self._repaired)
        self._repairing.start()

    def rest(self) -> None:
        """Repair nothing until `begin`: the log is about to be another one."""
        if self._repairing is not None:
            self._repairing.close()

    def close(self) -> None:
        """Repair nothing any more, and end the connections to other replicas."""
        self.rest()
        self._sources.close()

    def _repaired(self, part: DamagedPart, where: str) -> None:
        size = part.end - part.begin
        if where:
            log.warning("store group %s: %s bytes of the log at %s were damaged and are whole again, from %s",
                        self._name, size, part.begin, where)  # fmt: skip
        else:
            why = "" if self._repairing is None else self._repairing.why
            log.error("store group %s: %s bytes of the log at %s are damaged, and nobody has given them: %s",
                      self._name, size, part.begin, why)  # fmt: skip
