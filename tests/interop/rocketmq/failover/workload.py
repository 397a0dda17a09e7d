"""Senders and consumers at several places, from the first message until everything acknowledged is settled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tests.interop.node import Ports
from tests.interop.rocketmq.failover.consumers import Consumer, MessageKey
from tests.interop.rocketmq.failover.leases import Handout
from tests.interop.rocketmq.failover.pops import GrpcPop, HttpPop, Pop
from tests.interop.rocketmq.failover.senders import Senders
from tests.patience import until

MEMBERS: Final = 2
"""Consumers of each group."""
PAUSE_S: Final = 0.2
BETWEEN: Final = 60
"""Acknowledged messages of each group between two kills."""
SETTLE_S: Final = 180.0
STORIES: Final = 4
POLL_S: Final = 0.1
GROUPS_BY_GATEWAYS: Final[Mapping[str, Callable[[Sequence[Ports], str, str], Pop]]] = {
    "workers-by-grpc": GrpcPop, "workers-by-http": HttpPop
}  # fmt: skip
"""Group -> how its members call."""
GROUPS_BY_PROXIES: Final[Mapping[str, Callable[[Sequence[Ports], str, str], Pop]]] = {"workers-by-grpc": GrpcPop}
"""Apache's proxy knows no HTTP."""


class Workload:
    """Consumers of several groups, and the senders of what each of them gets.

    places  gateways, or Apache's proxies; a test adds to them by `add`
    """

    def __init__(
        self,
        places: list[Ports],
        topic: str,
        groups: Mapping[str, Callable[[Sequence[Ports], str, str], Pop]],
        senders: Senders,
    ) -> None:
        self.places = places
        self.senders = senders
        self._consumers = {
            group: [Consumer(made(places, topic, group), group, len(places), seed) for seed in range(MEMBERS)]
            for group, made in groups.items()
        }

    @property
    def consumers(self) -> list[Consumer]:
        """Of all groups."""
        return [each for several in self._consumers.values() for each in several]

    def add(self, place: Ports) -> None:
        """Clients go to one more place."""
        self.places.append(place)
        for each in self.consumers:
            each.places(len(self.places))

    def handouts(self) -> list[Handout]:
        """What all consumers received."""
        return [handout for each in self.consumers for handout in each.handouts]

    def settled(self, group: str) -> set[str]:
        """The bodies that a group has acknowledged."""
        return set[str]().union(*(each.settled.copy() for each in self._consumers[group]))

    def go_on(self) -> None:
        """Wait until each group has acknowledged BETWEEN more messages. Fails after SETTLE_S."""
        goals = {group: len(self.settled(group)) + BETWEEN for group in self._consumers}

        def reached() -> bool:
            return bool(self._faults()) or all(len(self.settled(group)) >= goal for group, goal in goals.items())

        until(reached, SETTLE_S, self.notified)

    def notified(self) -> str:
        """What the run has done so far, as text."""
        return "\n".join(
            f"{group}: {len(self.settled(group))} messages settled, {sum(len(each.handouts) for each in several)} deliveries, "
            f"{sum(each.refusals for each in several)} refusals, {sum(each.failures for each in several)} calls unanswered"
            for group, several in self._consumers.items()
        )

    def finish(self) -> None:
        """Send no more, and wait until each group has settled everything that was acknowledged. Fails when it does not."""
        missing = self.wind_up(SETTLE_S)
        assert not any(missing.values()), self._stories(missing)

    def wind_up(self, seconds: float) -> dict[str, set[str]]:
        """As `finish`, but returns what each group has not settled after `seconds`."""
        self.senders.stop()
        for each in self.consumers:
            each.hurry()
        sent = self.senders.bodies()

        def missing() -> dict[str, set[str]]:
            return {group: sent - self.settled(group) - self._unsure(group) for group in self._consumers}

        limit_s = time.monotonic() + seconds
        while any(missing().values()) and not self._faults() and time.monotonic() < limit_s:
            time.sleep(POLL_S)
        self.stop()
        return missing()

    def _unsure(self, group: str) -> set[str]:
        """Bodies of messages that may be settled: the answer to their acknowledgement was lost."""
        return set[str]().union(*(each.unsure.copy() for each in self._consumers[group]))

    def _stories(self, missing: Mapping[str, set[str]]) -> str:
        """How many messages of each group are not settled, and all deliveries of some of them, as text."""
        lines = [self.notified()]
        for group, bodies in missing.items():
            some = sorted(bodies)[:STORIES]
            lines.append(f"{group}: {len(bodies)} messages are not settled, as {some}")
            mine = [handout for each in self._consumers[group] for handout in each.handouts]
            lines += [str(each) for each in mine if isinstance(each.message, MessageKey) and each.message.body in some]
        return "\n".join(lines)

    def stop(self) -> None:
        """End the consumers. Raises what ended one of them early."""
        for each in self.consumers:
            each.stop()
        for each in self.consumers:
            each.join()

    def start(self) -> None:
        """Begin."""
        self.senders.start()
        for each in self.consumers:
            each.start()

    def _faults(self) -> list[BaseException]:
        return [*self.senders.faults, *(each.fault for each in self.consumers if each.fault is not None)]


@contextmanager
def at_gateways(gateways: list[Ports], topic: str) -> Iterator[Workload]:
    """Six protocols in, groups by gRPC and by HTTP; it has begun. Threads end with the block."""
    with _running(Workload(gateways, topic, GROUPS_BY_GATEWAYS, Senders(gateways, topic, PAUSE_S))) as work:
        yield work


@contextmanager
def at_proxies(proxies: list[Ports], topic: str) -> Iterator[Workload]:
    """The same straight at Apache's own proxies, by gRPC: what happens here too is none of the gateway's doing."""
    with _running(Workload(proxies, topic, GROUPS_BY_PROXIES, Senders(proxies, topic, PAUSE_S / 6, ("gRPC",)))) as work:
        yield work


@contextmanager
def _running(work: Workload) -> Iterator[Workload]:
    work.start()
    try:
        yield work
    finally:
        work.senders.end()
        for each in work.consumers:
            each.stop()
