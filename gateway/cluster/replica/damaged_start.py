"""Start of a replica whose log cannot be opened, since acknowledged data is damaged: repaired from others, or replaced.

queries the group --> other replicas supply the damaged parts --> the log is opened again
                  --> the SyncStateSet has another member: the damaged log is set aside --> a new log is opened
                  --> it is the only member: an operator has to act
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.controller.answer import GroupRefusal
from domain.controller.group import StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.replication.ports import DamagedLog, DamagedPart
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.identity import ReplicaIdentity
from gateway.cluster.replica.log_repairs import RepairSources
from store.replication.repairing import PartSource, RepairCounts, Repairing

POLL_NS: Final = 250 * MILLISECOND_NS
MEND_NS: Final = 30_000 * MILLISECOND_NS
"""Time limit for a repair by other replicas. After it the damaged log is set aside for a new one."""
log: Final = logging.getLogger("headgate.replica")


@final
class DamagedStart:
    """One such start of a replica. A replica without an id, or of another store group, waits for an operator."""

    def __init__(
        self, damaged: DamagedLog, identity: ReplicaIdentity, controllers: GroupControllers, sources: RepairSources,
        clock: Clock, entropy: Entropy, counts: RepairCounts, done: Callable[[bool], None],
    ) -> None:  # fmt: skip
        """`done(True)`: the log is closed, and can be opened again; `done(False)`: an operator has to act."""
        self._damaged = damaged
        self._identity = identity
        self._own = identity.id
        self._controllers = controllers
        self._sources = sources
        self._clock = clock
        self._entropy = entropy
        self._done = done
        self._group: StoreGroup | None = None
        self._repairing = Repairing(damaged.parts, self._others, clock, counts, self._notified)
        self._until_ns = 0
        self._timer: Timer | None = None
        self._ended = False

    def start(self) -> None:
        """Log the fault, and query the group."""
        log.error("%s", self._damaged.fault)
        self._ask()

    def close(self) -> None:
        """Stop without a call of `done`; the log stays as it is."""
        if not self._ended:
            self._ended = True
            self._stop()

    def _stop(self) -> None:
        self._repairing.close()
        if self._timer is not None:
            self._timer.cancel()
        self._damaged.close()

    def _others(self) -> Sequence[PartSource]:
        return self._sources.of(self._group, self._own)

    def _ask(self) -> None:
        self._controllers.ask(self._heard)

    def _again(self, step: Callable[[], None]) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + POLL_NS, step)

    def _heard(self, group: StoreGroup | None, known: bool) -> None:
        if self._ended:
            return
        if not known:
            self._again(self._ask)
            return
        self._group = group
        if group is not None and self._identity.is_of_other(group.identity):
            log.error(
                "store group %s: nothing is repaired by the word of the controllers at %s: %s", group.name,
                self._controllers.where, GroupRefusal.OTHER_GROUP.value,
            )  # fmt: skip
            self._end(False)
            return
        if group is None or not self._own or all(each.id == self._own for each in group.replicas):
            self._end(False)
        elif not self._damaged.parts.damaged():
            self._abandon_damaged(group)
        else:
            self._until_ns = self._clock.monotonic_ns() + MEND_NS
            self._repairing.start()
            self._poll()

    def _poll(self) -> None:
        """Check whether all parts are repaired."""
        if self._ended or self._group is None:
            return
        if not self._damaged.parts.damaged():
            self._end(True)
        elif self._clock.monotonic_ns() >= self._until_ns:
            self._abandon_damaged(self._group)
        else:
            self._again(self._poll)

    def _abandon_damaged(self, group: StoreGroup) -> None:
        if all(each.id == self._own for each in group.members):
            self._end(False)
            return
        self._repairing.close()
        try:
            folder = self._damaged.abandon_damaged(int.from_bytes(self._entropy.token(8), "big") >> 1 | 1)
        except OSError as error:
            log.error("store group %s: the damaged log cannot be set aside: %s", group.name, error)
            self._end(False)
            return
        log.error(
            "store group %s: what this replica has promised is damaged: from there on its log is set aside in %s. It is "
            "another log from now on, outside of the SyncStateSet until it has caught up", group.name, folder,
        )  # fmt: skip
        self._end(True)

    def _end(self, opens: bool) -> None:
        self._ended = True
        self._stop()
        self._done(opens)

    def _notified(self, part: DamagedPart, where: str) -> None:
        size, group = part.end - part.begin, "" if self._group is None else self._group.name
        if where:
            log.warning("store group %s: %s bytes of the log at %s were damaged and are whole again, from %s",
                        group, size, part.begin, where)  # fmt: skip
        else:
            log.error("store group %s: %s bytes of the log at %s are damaged, and nobody has given them yet: %s",
                      group, size, part.begin, self._repairing.why)  # fmt: skip
