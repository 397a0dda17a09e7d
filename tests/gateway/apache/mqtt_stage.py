"""A gateway before a scripted cluster, in memory: the real MQTT adapter, use cases and cluster store, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import orjson

from domain.store.store_event import unheard
from gateway.apache.store import RocketmqStore
from gateway.apache.topics.broker_capabilities import ClusterCapabilities
from gateway.apache.topics.metadata import RocketmqMetadata
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.queue_choice import CHOICES
from gateway.node.settings_tables import read
from gateway.usecase.dispatcher import Dispatcher
from gateway.usecase.sessions.attached_sessions import AttachedSessions
from gateway.usecase.sessions.sessions import Sessions
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.long_polls import LiveTails
from protocols.mqtt.adapter import MqttAdapter
from protocols.mqtt.settings import MqttSettings
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from protocols.setting import Setting
from store.engine import open_store
from store.settings import StoreSettings
from tests.gateway.apache.scripted_cluster import Reply, ScriptedCluster, ScriptedServer, reply_to
from tests.gateway.brokers.test_message_log import Queues, stored
from tests.protocols.mqtt.stage import Broker
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import FixedEntropy


class HoldingQueues(Queues):
    """The queues of one scripted broker, which holds pulls until there is something, and searches by time.

    groups    positions of consumer groups, by (group, topic, queue)
    slow_ms   times that requests wait before they are handled, by code; the last one holds for all that follow
    """

    def __init__(self, server: ScriptedServer, clock: VirtualClock) -> None:
        super().__init__()
        self.groups: dict[tuple[str, str, int], int] = {}
        self.slow_ms: dict[int, list[int]] = {}
        self._server = server
        self._clock = clock
        self._held: list[Frame] = []
        for code, answer in (
            (codes.SEND_V2, self.send), (codes.SEND_BATCH, self.send), (codes.PULL, self.pull),
            (codes.GET_MAX_OFFSET, self.end), (codes.GET_MIN_OFFSET, self.first), (codes.SEARCH_OFFSET, self.search),
            (codes.QUERY_OFFSET, self.position), (codes.UPDATE_OFFSET, self.commit),
        ):  # fmt: skip
            server.on(code, partial(self._handle, answer))

    def _handle(self, answer: Callable[[Frame], Reply], frame: Frame) -> Reply:
        waits = self.slow_ms.get(frame.code, [0])
        wait_ms = waits.pop(0) if len(waits) > 1 else waits[0]
        if not wait_ms:
            return answer(frame)
        self._clock.call_at(self._clock.monotonic_ns() + wait_ms * 1_000_000, partial(self._answer, answer, frame))
        return None

    def put(self, queue_id: int, *bodies: bytes) -> None:
        """Messages come at the cluster's side; held pulls of the queue are answered."""
        mine = self.records.setdefault(queue_id, [])
        for body in bodies:
            mine.append(stored(body, len(mine), queue_id, self._clock.wall_ms()))
        held, self._held = self._held, []
        for frame in held:
            if (frame.fields() or {})["queueId"] == str(queue_id):
                self._answer(self.pull, frame)
            else:
                self._held.append(frame)

    def _answer(self, answer: Callable[[Frame], Reply], frame: Frame) -> None:
        found = answer(frame)
        if found is not None and self._server.connections:
            self._server.connections[-1].notify(reply_to(frame, *found))

    def pull(self, frame: Frame) -> Reply:
        """PULL_MESSAGE."""
        found = super().pull(frame)
        if found is None:
            self._held.append(frame)
        return found

    def send(self, frame: Frame) -> Reply:
        """SEND_MESSAGE_V2."""
        queue_id = int((frame.fields() or {})["e"])
        found = super().send(frame)
        self.put(queue_id)
        return found

    def first(self, frame: Frame) -> Reply:
        """GET_MIN_OFFSET."""
        return codes.SUCCESS, {"offset": "0"}, b""

    def position(self, frame: Frame) -> Reply:
        """QUERY_CONSUMER_OFFSET."""
        found = self.groups.get(_position_key(frame))
        return (codes.QUERY_NOT_FOUND, {"a": "b"}, b"") if found is None else (codes.SUCCESS, {"offset": str(found)}, b"")

    def commit(self, frame: Frame) -> Reply:
        """UPDATE_CONSUMER_OFFSET."""
        self.groups[_position_key(frame)] = int((frame.fields() or {})["commitOffset"])
        return codes.SUCCESS, {"a": "b"}, b""


class ClusterGateway(Broker):
    """One gateway. `kill` discards everything that is not on its disk, and starts it again with what is; the cluster stays.

    topics    topics of the cluster and their queues, as in ScriptedCluster
    servers   the scripted brokers, by name
    queues    what they have; they answer for any topic alike
    """

    def __init__(self) -> None:
        self.cluster: ScriptedCluster | None = None
        self.rocketmq: RocketmqStore | None = None
        super().__init__()

    def start(self) -> None:
        clock, entropy = self.clock, self.entropy
        if self.cluster is None:
            self.cluster = ScriptedCluster(clock)
            self.topics = self.cluster.topics
            self.topics["T"] = {"broker-a": (1, 1, 6), "broker-b": (1, 1, 6)}
            self.cluster.nameserver.on(codes.GET_TOPICS, self._listed)
            self.servers = self.cluster.brokers
            self.queues = {name: HoldingQueues(server, clock) for name, server in self.servers.items()}
        if self.rocketmq is not None:
            self.rocketmq.close()
        local = open_store(self.disk, clock, StoreSettings(segment_bytes=1024 * 1024), unheard)
        links = Brokers([("10.0.0.9", 9876)], self.cluster, clock, FixedEntropy())
        self.map = ClusterMap(links, clock, local.state)
        self.map.start()
        self.clock.run_for(100)
        self.metadata = RocketmqMetadata(links, self.map, clock, ("c", "b"))
        self.map.remembered(self._ensure)
        self.clock.run_for(100)
        self.metadata.start()
        choice = CHOICES["round-robin"](links, self.map, "")
        facts = ClusterCapabilities("c", ())
        store = RocketmqStore(links, self.map, self.metadata, local, choice, facts, clock, "me@1@headgate")
        self.rocketmq = store
        self.policy = NodePolicy()
        tails = LiveTails(store.tail.wait, store.tail.watch)
        dispatcher = Dispatcher(
            store=store, clock=clock, entropy=entropy, cluster="c", broker="b", policy=self.policy, tails=tails
        )  # fmt: skip
        self.sessions = Sessions(store, clock, dispatcher, self.policy, AttachedSessions(), store.tail.watch)
        dispatcher.add(self.sessions)
        store.log.listen(self.sessions)
        store.tail.pulls.follow_lost(self.sessions.went_back)
        self.handler = store.before(dispatcher)  # type: ignore[assignment]
        setting = Setting("c", "b", "127.0.0.1", {}, entropy, clock.wall_ms)
        self.adapter = MqttAdapter(setting, read(MqttSettings, "mqtt", self.options, {}))
        self.clock.run_for(100)

    def _ensure(self, names: Sequence[str]) -> None:
        known: list[object] = []
        for name in names:
            self.metadata.ensure_topic(name, known.append)

    def _listed(self, _: Frame) -> Reply:
        return codes.SUCCESS, {}, orjson.dumps({"topicList": list(self.topics)})


def _position_key(frame: Frame) -> tuple[str, str, int]:
    fields = frame.fields() or {}
    return fields["consumerGroup"], fields["topic"], int(fields["queueId"])
