"""Repair of the current log of a replica: damaged parts are read from other replicas."""

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
    """Repairs of one log at a time."""

    def __init__(
        self,
        name: str,
        group: Callable[[], tuple[StoreGroup | None, int]],
        sources: RepairSources,
        clock: Clock,
        counts: RepairCounts,
    ) -> None:
        """`name`: of the store group; `group()`: (the group as last reported, id of this replica)."""
        self._name = name
        self._group = group
        self._sources = sources
        self._clock = clock
        self._counts = counts
        self._repairing: Repairing | None = None

    def begin(self, parts: MendableLog) -> None:
        """Start to repair this log, and stop repairing an earlier one."""
        self.rest()
        self._repairing = Repairing(parts, lambda: self._sources.of(*self._group()), self._clock, self._counts, self._repaired)
        self._repairing.start()

    def rest(self) -> None:
        """Stop repairs until `begin`: the log is about to be replaced."""
        if self._repairing is not None:
            self._repairing.close()

    def close(self) -> None:
        """Stop repairs, and close the connections to other replicas."""
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
