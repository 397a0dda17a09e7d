"""Periodic query of broker capabilities: settings change at run time, and a starting broker does not answer at once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.apache.topics.broker_capabilities import CapabilityFinding, ClusterCapabilities
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap

PERIOD_NS: Final = 60 * SECOND_NS
UNTOLD_NS: Final = 5 * SECOND_NS
"""The same while there is a broker that has never answered."""

log = logging.getLogger("headgate.rocketmq")


@final
class CapabilityWatch:
    """Keeps the capabilities of a cluster up to date, and logs changes.

    facts   capabilities of all brokers that name servers report; of a silent broker, those that it reported last
    """

    def __init__(
        self,
        servers: Brokers,
        cluster: ClusterMap,
        clock: Clock,
        facts: ClusterCapabilities,
        changed: Callable[[ClusterCapabilities], None],
    ) -> None:
        """`facts`: result of the query at the start; `changed`: called with each changed result."""
        self.facts = facts
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._stopped = False

    def start(self) -> None:
        """Start the periodic query."""
        self._ask_later()

    def stop(self) -> None:
        """End the periodic query."""
        self._stopped = True

    def _ask_later(self) -> None:
        untold = any(each.silent for each in self.facts.brokers)
        self._clock.call_at(self._clock.monotonic_ns() + (UNTOLD_NS if untold else PERIOD_NS), self._ask)

    def _ask(self) -> None:
        if not self._stopped:
            CapabilityFinding(self._servers, self._cluster).start(self._notified)

    def _notified(self, found: ClusterCapabilities) -> None:
        before = {each.broker: each for each in self.facts.brokers if each.settings}
        brokers = [each if each.settings else before.get(each.broker, each) for each in found.brokers]
        facts = ClusterCapabilities(found.cluster, brokers)
        if facts != self.facts and brokers:
            lines = self.facts.lines()
            self.facts = facts
            for what, how in facts.lines():
                if (what, how) not in lines:
                    log.info("the cluster has changed: %s %s", what, how)
            self._changed(facts)
        self._ask_later()
