"""The clients of a cluster: producers of all protocols, members of two groups, and MQTT sessions."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Final

from domain.errors import Failure
from domain.topic.topic import Durability, Topic
from tests.simulation.cluster.device import RoamingListener
from tests.simulation.cluster.machine import DRIFT_MS
from tests.simulation.cluster.members import ClusterLedger, ClusterMember, GroupHistory, OrderedMember
from tests.simulation.cluster.spanning import WIDE, WIDE_QUEUES, Part
from tests.simulation.cluster.transactions import ClusterTransactor, Deals
from tests.simulation.device import Sensor
from tests.simulation.posters import POSTERS, Poster, RemotingPoster

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster
    from tests.simulation.cluster.store_group import SimGroup

DEV, ROWS, QUICK, LOCAL, DEALS = "dev", "rows", "quick", "local", "deals"
LEVELS: Final = {
    DEV: Durability.REPLICATED_FLUSHED, ROWS: Durability.REPLICATED_FLUSHED, QUICK: Durability.REPLICATED,
    LOCAL: Durability.FLUSHED, DEALS: Durability.REPLICATED_FLUSHED,
    WIDE: Durability.REPLICATED_FLUSHED,
}  # fmt: skip
QUEUES: Final = {DEV: 4, ROWS: 2, QUICK: 1, LOCAL: 1, DEALS: 2, WIDE: WIDE_QUEUES}
GROUP, ORDERLY, DEALERS = "mixed", "orderly", "dealers"
GROUPS: Final = {DEV: GROUP, ROWS: ORDERLY, DEALS: DEALERS}
"""Topic -> the consumer group that settles its messages."""
PAUSE_MS = 3_000


class TimerPoster(RemotingPoster):
    """Sends messages that are to be delivered later.

    later_ms  how much later at least, and at most
    """

    later_ms = 200, 9_000

    def properties(self) -> list[tuple[str, str]]:
        """With the time of delivery."""
        due_ms = self.net.clock.wall_ms() + self.chance.randrange(*self.later_ms)
        self.due[self._asked] = due_ms
        return [*super().properties(), ("TIMER_DELIVER_MS", str(due_ms))]

    def __init__(self, net: Cluster, name: str, topic: str, count: int) -> None:
        super().__init__(net, name, topic, count)
        self.due: dict[str, int] = {}


class RowPoster(RemotingPoster):
    """Sends to one queue."""

    queue = "0"


class Load:
    """All clients of a run.

    ledger    acknowledged sends of all topics
    groups    deliveries of the consumer group of each topic
    deals     what the producers of transactions have decided
    parts     of the topic that spans all store groups; none when there is one group
    """

    def __init__(self, cluster: Cluster, count: int, leases_survive: bool) -> None:
        """`count` messages of each producer."""
        self.cluster = cluster
        seed = cluster.seed
        self.posters: list[Poster] = [kind(cluster, f"{kind.__name__}-{seed}", DEV, count) for kind in POSTERS]
        self.timers = TimerPoster(cluster, f"TimerPoster-{seed}", DEV, count)
        self.rows = [RowPoster(cluster, f"RowPoster-{seed}-{at}", ROWS, count) for at in range(2)]
        self.rows[1].queue = "1"
        quick = RemotingPoster(cluster, f"Quick-{seed}", QUICK, count)
        local = RemotingPoster(cluster, f"Local-{seed}", LOCAL, count)
        self.posters += [self.timers, *self.rows, quick, local]
        for poster in self.posters:
            poster.pause_ms = PAUSE_MS
        self.ledger = cluster.ledger
        self.deals = Deals()
        self.transactors = [
            ClusterTransactor(cluster, f"Deal-{seed}-{at}", random.Random(seed * 500 + at), DEALS, count // 2, self.deals)
            for at in range(2)
        ]
        self.parts = [Part(each, count, leases_survive) for each in cluster.groups] if len(cluster.groups) > 1 else []
        self.groups = {topic: ClusterLedger() for topic in GROUPS}
        self.history = {topic: GroupHistory() for topic in GROUPS}
        dial = lambda client: cluster.dial("remoting", client)  # noqa: E731
        self.members: list[ClusterMember] = []
        for at, topic in enumerate((DEV, DEV, ROWS, ROWS, DEALS)):
            group, kind = GROUPS[topic], OrderedMember if topic == ROWS else ClusterMember
            ledger = self.groups[topic]
            ledger.early_ms = cluster.skew_ms // 2 + DRIFT_MS
            ledger.trace = cluster.ledger.trace
            ledger.faults = cluster.ledger.faults
            chance = random.Random(seed * 200 + at)
            member = kind(f"member {at}", cluster.clock, chance, dial, ledger, topic, group, leases_survive)
            member.history = self.history[topic]
            self.members.append(member)
        listen = lambda client: cluster.dial("mqtt", client)  # noqa: E731
        self.listener = RoamingListener("listener", cluster.clock, random.Random(seed * 300), listen, self.ledger)
        self.sensors = [
            Sensor(f"sensor{qos}-{seed}", cluster.clock, random.Random(seed * 400 + qos), listen, self.ledger, qos, 2 * count)
            for qos in (1, 2)
        ]
        for sensor in self.sensors:
            sensor.pause_ms = PAUSE_MS
            sensor.packet_ids = 3
            sensor.window = 2

    def topics(self) -> None:
        """Make the topics at the leaders."""
        for group in self.cluster.groups:
            for name, level in LEVELS.items():
                if self.parts if name == WIDE else group is self.cluster.groups[0]:
                    self._make(group, Topic(name, read_queues=QUEUES[name], write_queues=QUEUES[name], durability=level))

    def _make(self, group: SimGroup, topic: Topic) -> None:
        """Make one topic; again when it is refused, since the leader may not know yet who is in its SyncStateSet."""
        while True:
            leader = group.leader()
            assert leader is not None
            assert leader.store is not None
            made: list[Failure | None] = []
            leader.store.store.metadata.put_topic(topic, made.append)
            self.cluster.clock.run_until(lambda: bool(made), 10_000)  # noqa: B023 - it is called at once
            if made == [None]:
                return
            self.cluster.clock.run_for(50)

    def start(self) -> None:
        """Subscribe, and begin to send and to receive."""
        self.listener.start()
        self.cluster.clock.run_until(lambda: self.listener.ready, 20_000)
        for poster in self.posters:
            poster.start()
        for part in self.parts:
            part.start()
        for transactor in self.transactors:
            transactor.start()
        for member in self.members:
            member.start()
        for sensor in self.sensors:
            sensor.start()

    @property
    def sent(self) -> bool:
        """True when every message was answered or given up."""
        return not self.sending()

    def sending(self) -> list[str]:
        """Who still sends."""
        posters: list[Poster] = [*self.posters, *[each for part in self.parts for each in part.posters]]
        names = [each.name for each in posters if not each.done]
        names += [each.name for each in self.transactors if not each.done]
        return names + [each.name for each in self.sensors if not each.done]

    def decide(self) -> None:
        """From now on every question about a transaction is answered."""
        for transactor in self.transactors:
            transactor.certain = True

    def unheard(self) -> set[str]:
        """Acknowledged messages that the session still lacks."""
        wanted = {name for name in self.ledger.acknowledged if not name.startswith(("RowPoster", "Quick", "Local", "Deal"))}
        return wanted - {message_of(body) for body, _ in self.listener.taken}

    def check(self, stored: dict[str, list[list[tuple[int, str]]]], keeps_quick: bool) -> list[str]:
        """What is wrong with `stored`: topic -> queues -> (offset, body) of all messages."""
        wrong: list[str] = list(self.ledger.faults)
        names: Counter[str] = Counter()
        for topic, queues in stored.items():
            for at, queue in enumerate(queues):
                if [offset for offset, _ in queue] != list(range(len(queue))):
                    wrong.append(f"the offsets of {topic}/{at} have gaps: {[offset for offset, _ in queue]}")
                names.update(message_of(body) for _, body in queue)
        promised = {
            name for name in self.ledger.acknowledged
            if not name.startswith("Local") and (keeps_quick or not name.startswith("Quick"))
        }  # fmt: skip
        if promised - set(names):
            wrong.append(f"acknowledged messages are lost: {sorted(promised - set(names))}")
        sensed = {f"{sensor.name}/{number}" for sensor in self.sensors for number in range(200)}
        if set(names) - set(self.ledger.sent) - sensed:
            wrong.append(f"messages that nobody has sent: {sorted(set(names) - set(self.ledger.sent) - sensed)}")
        once = {name: count for name, count in names.items() if count > 1 and not name.startswith("sensor1")}
        if once:
            wrong.append(f"messages are stored more than once: {once}")
        back = sorted(filter(self.deals.is_rolled_back, names))
        if back:
            wrong.append(f"messages whose transactions were rolled back: {back}")
        wrong += self._heard(names)
        wrong += self._settled(stored)
        return wrong

    def _heard(self, names: Counter[str]) -> list[str]:
        """What the session has got: at QoS 2 exactly once, and in the order of its publisher."""
        taken = Counter(message_of(body) for body, qos in self.listener.taken if qos == 2)
        wrong = [f"the session has got {name} {count} times at QoS 2" for name, count in taken.items() if count > names[name]]
        for sensor in self.sensors:
            mine = [body for body, _ in self.listener.taken if body.startswith(sensor.name)]
            order = [int(body.rpartition("/")[2]) for body in dict.fromkeys(mine)]
            if order != sorted(order):
                wrong.append(f"the session has got {sensor.name} in the order {order}")
        return wrong

    def _settled(self, stored: dict[str, list[list[tuple[int, str]]]]) -> list[str]:
        """Each message was acknowledged by a receipt of its last lease; ordered ones came in their order."""
        wrong: list[str] = []
        for topic, history in self.history.items():
            for at, queue in enumerate(stored[topic]):
                never = [offset for offset, _ in queue if f"{at}/{offset}" not in history.asked]
                if never:
                    wrong.append(f"{topic}/{at}: {never} are settled, and nobody has acknowledged them by a receipt that held")
        for at, first in self.history[ROWS].first.items():
            if first != [body.rstrip(".") for _, body in stored[ROWS][at]]:
                wrong.append(f"{ROWS}/{at} came in the order {first}")
        return wrong


def message_of(body: str) -> str:
    """The name of a message. MQTT 3.1.1 has no place for an event's attributes: it is delivered as JSON, with its id."""
    return str(json.loads(body)["id"]) if body.startswith("{") else body.rstrip(".")
