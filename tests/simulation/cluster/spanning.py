"""The clients of a topic that spans store groups: in each it has queues of its own, and a member of the same consumer group.

A producer of Apache's sends to the queues of all groups by turns, and its consumers ask each of them: order is per queue.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.simulation.cluster.machine import DRIFT_MS
from tests.simulation.cluster.members import ClusterLedger, GroupHistory, OrderedMember
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.links import Party
from tests.simulation.ledger import Ledger
from tests.simulation.posters import RemotingPoster

if TYPE_CHECKING:
    from tests.simulation.cluster.store_group import SimGroup

WIDE: Final = "wide"
WIDE_QUEUES: Final = 2
READERS: Final = "readers"
PAUSE_MS = 2_000


class QueuePoster(RemotingPoster):
    """Sends to one queue."""

    def __init__(self, part: Part, queue: int, count: int) -> None:
        super().__init__(part, f"Wide-{part.group.name}-{queue}", WIDE, count)
        self.queue = str(queue)
        self.pause_ms = PAUSE_MS


class Part:
    """What one store group has of the topic. It is a `tests.simulation.posters.Net`: clients connect to the group's gateways.

    ledger    what was sent to this group
    posters   what the producer sends to each of its queues, in order
    member    the part of the consumer that asks this group
    """

    def __init__(self, group: SimGroup, count: int, leases_survive: bool) -> None:
        cluster = group.cluster
        self.group = group
        self.seed = cluster.seed
        self.ledger = Ledger(trace=cluster.ledger.trace)
        self.posters = [QueuePoster(self, queue, count) for queue in range(WIDE_QUEUES)]
        ledger = ClusterLedger(trace=cluster.ledger.trace, faults=cluster.ledger.faults)
        ledger.early_ms = cluster.skew_ms // 2 + DRIFT_MS
        self.history = GroupHistory()
        self.member = OrderedMember(
            f"reader of {group.name}", cluster.clock, random.Random(f"{cluster.seed} {group.name}"),
            lambda client: group.dial("remoting", client), ledger, WIDE, READERS, leases_survive,
        )  # fmt: skip
        self.member.history = self.history

    @property
    def clock(self) -> VirtualClock:
        """The clock of the clients."""
        return self.group.clock

    def dial(self, protocol: str, party: Party) -> None:
        """Connect a client to a gateway of the group."""
        self.group.dial(protocol, party)

    def start(self) -> None:
        """Begin to send and to receive."""
        for poster in self.posters:
            poster.start()
        self.member.start()

    def check(self, queues: list[list[tuple[int, str]]]) -> list[str]:
        """What is wrong with `queues`: (offset, body) of all messages that the group has of the topic."""
        wrong: list[str] = []
        for at, queue in enumerate(queues):
            place = f"{self.group.name} {WIDE}/{at}"
            names = [body.rstrip(".") for _, body in queue]
            mine = f"Wide-{self.group.name}-{at}/"
            if [offset for offset, _ in queue] != list(range(len(queue))):
                wrong.append(f"the offsets of {place} have gaps: {[offset for offset, _ in queue]}")
            acknowledged = [name for name in self.ledger.acknowledged if name.startswith(mine)]
            if set(acknowledged) - set(names):
                wrong.append(f"acknowledged messages of {place} are lost: {sorted(set(acknowledged) - set(names))}")
            if [name for name, count in Counter(names).items() if count > 1 or not name.startswith(mine)]:
                wrong.append(f"{place} has messages twice, or those of another queue: {names}")
            numbers = [int(name.rpartition("/")[2]) for name in names]
            if numbers != sorted(numbers):
                wrong.append(f"{place} has the order {numbers}")
            if self.history.first.get(at, []) != names:
                wrong.append(f"{place} came in the order {self.history.first.get(at, [])}, stored are {names}")
            never = [offset for offset, _ in queue if f"{at}/{offset}" not in self.history.asked]
            if never:
                wrong.append(f"{place}: {never} are settled, and nobody has acknowledged them by a receipt that held")
        return wrong
