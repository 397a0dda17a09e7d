"""The Prometheus text, and the lag of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from domain.errors import ErrorCode, Failure
from domain.store_ports import GroupPositions, MessageLog, Metadata
from domain.topic import Group, Topic
from gateway.node.protocols import installed
from gateway.observe import lag, metrics
from gateway.observe.counters import CounterRegistry
from gateway.observe.lag import Lags


def test_text_has_every_figure_with_its_labels_escaped() -> None:
    counter_registry = CounterRegistry(installed().words)
    mqtt = counter_registry.of("mqtt")
    mqtt.messages_in = 3
    mqtt.refused("topic-illegal")
    mqtt.disconnected("frame-length")
    mqtt.disconnected("goodbye")
    mqtt.disconnected("a word that nobody knows")
    counter_registry.of("coap").bytes_out = 7
    store = {"log_syncs_total": 2, "leases": 1.5}
    counters = {"reload_broken": 1}
    text = metrics.text(
        counter_registry.all(), store, [('g"\n', "t", 9)], 1.25, 4, {"not-allowed": 3}, {"slow-reader": 7}, counters
    )
    assert 'headgate_access_refusals_total{reason="not-allowed"} 3' in text
    lines = text.splitlines()
    assert 'headgate_messages_in_total{protocol="mqtt"} 3' in lines
    assert 'headgate_bytes_out_total{protocol="coap"} 7' in lines
    assert 'headgate_refusals_total{protocol="mqtt",reason="topic-illegal"} 1' in lines
    assert 'headgate_disconnects_total{protocol="mqtt",reason="malformed"} 1' in lines
    assert 'headgate_disconnects_total{protocol="mqtt",reason="goodbye"} 1' in lines
    assert 'headgate_disconnects_total{protocol="mqtt",reason="internal"} 1' in lines
    assert 'headgate_refusals_total{protocol="mqtt",reason="malformed"} 1' in lines
    assert 'headgate_refusals_total{protocol="mqtt",reason="internal"} 1' in lines
    assert 'reason="goodbye"' not in "".join(line for line in lines if "refusals" in line)
    assert 'headgate_group_lag{group="g\\"\\n",topic="t"} 9' in lines
    assert "# TYPE headgate_store_log_syncs_total counter" in lines
    assert "headgate_store_leases 1.5" in lines
    assert "headgate_messages_expired_total 4" in lines
    assert 'headgate_mqtt_lost_total{reason="slow-reader"} 7' in lines
    assert "headgate_reload_broken 1" in lines
    assert lines[-1] == "headgate_up_seconds 1.250"
    assert text.endswith("\n")


@dataclass
class FakeStore:
    """Positions and bounds in memory, and the two methods of Metadata and the ports of the store that Lags asks."""

    positions: dict[tuple[str, str, int], int]
    ends: dict[tuple[str, int], int]
    names: list[str]
    members: list[str]
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def topics(self) -> list[Topic]:
        return [Topic(name, 4, 4) for name in self.names]

    def groups(self) -> list[Group]:
        return [Group(name) for name in self.members]

    def topic(self, name: str) -> Topic | None:
        return Topic(name) if name in self.names else None

    def group(self, name: str) -> Group | None:
        return Group(name) if name in self.members else None

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[Any], None]) -> None:
        self.asked.append((group, topic, queue_id))
        done(self.positions.get((group, topic, queue_id), Failure(ErrorCode.OFFSET_NOT_FOUND)))

    def bounds(self, topic: str, queue_id: int, done: Callable[[Any], None]) -> None:
        done((0, self.ends.get((topic, queue_id), 0)))


def lags_of(store: FakeStore) -> Lags:
    return Lags(cast(MessageLog, store), cast(GroupPositions, store), cast(Metadata, store))


def test_lag_is_the_sum_over_queues_with_a_position() -> None:
    store = FakeStore(
        {("g", "t", 0): 5, ("g", "t", 2): 0, ("h", "t", 1): 9}, {("t", 0): 7, ("t", 1): 9, ("t", 2): 4}, ["t"], ["g", "h"]
    )
    lags = lags_of(store)
    assert lags.refresh() == [("g", "t", 6), ("h", "t", 0)]
    store.positions["g", "t", 0] = 7
    store.members.remove("h")
    lags.refresh()
    assert lags.refresh() == [("g", "t", 4)]


def test_one_look_asks_about_a_bounded_number_of_queues() -> None:
    names = [f"t{number:03}" for number in range(200)]
    members = [f"g{number:02}" for number in range(20)]
    store = FakeStore({("g19", "t199", 3): 0}, {("t199", 3): 2}, names, members)
    lags = lags_of(store)
    found: list[tuple[str, str, int]] = []
    for _ in range(5):
        before = len(store.asked)
        found = found or lags.refresh()
        assert len(store.asked) - before <= lag.QUEUES_PER_REFRESH
    assert found == [("g19", "t199", 2)]


def test_system_topics_are_left_out() -> None:
    store = FakeStore({}, {}, ["BenchmarkTest", "t"], ["g"])
    lags_of(store).refresh()
    assert {topic for _, topic, _ in store.asked} == {"t"}
