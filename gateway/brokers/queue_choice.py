"""Choice of the queue for messages without an ordering key, by strategies. An entry point may add one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap

LATE_US: Final = 50_000
"""Mean time of a broker's answers from which strategy `latency` prefers others."""
WEIGHT: Final = 8
"""An answer counts for an eighth of the mean."""


class QueueChoice(Protocol):
    """Chooses among the queues of a topic that can be written."""

    def choose(self, topic: str, places: Sequence[int], wanted: int) -> int:
        """One of `places`, which is not empty. `wanted`: the place whose turn it is, which may not be among them."""

    def answered(self, broker: str, micros: int) -> None:
        """A broker has answered a send."""


@final
class InTurn:
    """`round-robin`: each queue in its turn; queues of brokers that do not answer are passed over."""

    def __init__(self, servers: Brokers, cluster: ClusterMap) -> None:
        self._servers = servers
        self._cluster = cluster

    def choose(self, topic: str, places: Sequence[int], wanted: int) -> int:
        """QueueChoice.choose."""
        queues = self._cluster.queues(topic)
        begin = _from(places, wanted)
        for step in range(len(places)):
            place = places[(begin + step) % len(places)]
            if not self._servers.waits(queues[place].broker):
                return place
        return places[begin]

    def answered(self, broker: str, micros: int) -> None:
        """Nothing to learn."""


@final
class ByLatency:
    """`latency`: queues of brokers whose answers take LATE_US on the mean are passed over as long as there are others."""

    def __init__(self, servers: Brokers, cluster: ClusterMap) -> None:
        self._servers = servers
        self._cluster = cluster
        self._mean: dict[str, int] = {}

    def choose(self, topic: str, places: Sequence[int], wanted: int) -> int:
        """QueueChoice.choose."""
        queues = self._cluster.queues(topic)
        begin = _from(places, wanted)
        best, least = places[begin], 1 << 62
        for step in range(len(places)):
            place = places[(begin + step) % len(places)]
            broker = queues[place].broker
            mean = self._mean.get(broker, 0)
            if self._servers.waits(broker):
                continue
            if mean < LATE_US:
                return place
            if mean < least:
                best, least = place, mean
        return best

    def answered(self, broker: str, micros: int) -> None:
        """QueueChoice.answered."""
        mean = self._mean.get(broker, micros)
        self._mean[broker] = mean + (micros - mean) // WEIGHT


@final
class SameZone:
    """`same-zone`: queues of brokers of this zone in turn; those of others when none of these answers."""

    def __init__(self, servers: Brokers, cluster: ClusterMap, zone: str) -> None:
        self._cluster = cluster
        self._zone = zone
        self._turns = InTurn(servers, cluster)
        self._servers = servers

    def choose(self, topic: str, places: Sequence[int], wanted: int) -> int:
        """QueueChoice.choose."""
        queues = self._cluster.queues(topic)
        near = [
            place
            for place in places
            if self._cluster.zone(queues[place].broker) == self._zone and not self._servers.waits(queues[place].broker)
        ]
        return near[wanted % len(near)] if near else self._turns.choose(topic, places, wanted)

    def answered(self, broker: str, micros: int) -> None:
        """Nothing to learn."""


MakeChoice = Callable[[Brokers, ClusterMap, str], QueueChoice]
"""Makes a strategy: (servers, map, zone of this gateway). Entry points of `gateway.apache.choices` name such functions."""

CHOICES: Final[dict[str, MakeChoice]] = {
    "round-robin": lambda servers, cluster, zone: InTurn(servers, cluster),
    "latency": lambda servers, cluster, zone: ByLatency(servers, cluster),
    "same-zone": SameZone,
}


def _from(places: Sequence[int], wanted: int) -> int:
    """Where in `places` the search begins: at `wanted`, or at the next greater place; 0 when there is none."""
    if wanted < len(places) and places[wanted] == wanted:
        return wanted
    for at, place in enumerate(places):
        if place >= wanted:
            return at
    return 0
