"""The metrics page: what is on it, that it is Prometheus' format, and that its rows are bounded."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from domain.controller.health import Fitness, ReplicaFigures, Standing
from domain.histogram import BOUNDS_S, Histogram
from gateway.node.protocols import installed
from gateway.observe.counters import SAMPLED, CounterRegistry
from gateway.observe.lag import LagRow
from gateway.observe.metrics import OTHER, ROWS_AT_ONCE, ROWS_MAX, SAMPLES_AT_ONCE, Snapshot, pieces, process_families, row_of


def samples(snapshot: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, labels) -> value of every sample on the page, read by prometheus-client's own parser."""
    families = text_string_to_metric_families(b"".join(pieces(snapshot, process_families())).decode())
    found = [
        (sample.name, tuple(sorted(sample.labels.items())), sample.value) for family in families for sample in family.samples
    ]
    assert len({(name, labels) for name, labels, _ in found}) == len(found), "a sample twice is an error to Prometheus"
    return {(name, labels): value for name, labels, value in found}


def test_every_figure_is_there_with_its_labels_escaped() -> None:
    registry = CounterRegistry(installed().words)
    mqtt = registry.of("mqtt")
    mqtt.messages_in = 3
    mqtt.refused("topic-illegal")
    mqtt.disconnected("frame-length")
    mqtt.disconnected("goodbye")
    mqtt.disconnected("a word that nobody knows")
    registry.of("coap").bytes_out = 7
    found = samples(
        Snapshot(
            [row_of(one) for one in registry.all()],
            {"log_syncs_total": 2, "leases": 1.5},
            {"reload_broken": 1, "messages_expired_total": 4, "up_seconds": 1.25},
            {"not-allowed": 3},
            {"slow-reader": 7},
            lags=[LagRow('g"\n', "t", 9, 2.5)],
            lag_age_s=3.0,
            compiled=141,
        )
    )
    assert found["headgate_messages_in_total", (("protocol", "mqtt"),)] == 3
    assert found["headgate_bytes_out_total", (("protocol", "coap"),)] == 7
    refusals = {labels: value for (name, labels), value in found.items() if name == "headgate_refusals_total"}
    assert refusals == {(("protocol", "mqtt"), ("reason", word)): 1 for word in ("topic-illegal", "malformed", "internal")}
    for word in ("malformed", "goodbye", "internal"):
        assert found["headgate_disconnects_total", (("protocol", "mqtt"), ("reason", word))] == 1
    assert found["headgate_group_lag", (("group", 'g"\n'), ("topic", "t"))] == 9
    assert found["headgate_group_lag_seconds", (("group", 'g"\n'), ("topic", "t"))] == 2.5
    assert found["headgate_group_lag_age_seconds", ()] == 3.0
    assert found["headgate_store_log_syncs_total", ()] == 2
    assert found["headgate_store_leases", ()] == 1.5
    assert found["headgate_messages_expired_total", ()] == 4
    assert found["headgate_access_refusals_total", (("reason", "not-allowed"),)] == 3
    assert found["headgate_mqtt_lost_total", (("reason", "slow-reader"),)] == 7
    assert found["headgate_reload_broken", ()] == 1
    assert found["headgate_up_seconds", ()] == 1.25
    (build,) = [dict(labels) for name, labels in found if name == "headgate_build_info"]
    assert build["compiled_modules"] == "141"
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert ("process_open_fds", ()) in found


def test_topics_and_groups_beyond_the_bound_are_one_row() -> None:
    topics = {f"t{number}": (number + 1, 10 * number) for number in range(ROWS_MAX + 500)}
    deliveries = {("g", f"t{number}"): (number + 1, 0) for number in range(ROWS_MAX + 500)}
    lags = [LagRow("g", f"t{number}", number, float(number)) for number in range(ROWS_MAX)]
    others = LagRow("", "", 5, 499.0)
    stored = (sum(row[0] for row in topics.values()) + 7, sum(row[1] for row in topics.values()))
    found = samples(
        Snapshot(
            topics=topics, deliveries=deliveries, stored=stored, delivered=stored, lags=lags, other_lags=others, lag_age_s=0.0
        )
    )
    rows = {labels: value for (name, labels), value in found.items() if name == "headgate_topic_messages_total"}
    assert len(rows) == ROWS_MAX + 1
    assert rows[("topic", OTHER),] == sum(range(1, 501)) + 7, "the smallest, and what was never kept by topic"
    assert sum(rows.values()) == stored[0]
    assert len([name for name, _ in found if name == "headgate_group_messages_total"]) == ROWS_MAX + 1
    assert found["headgate_group_lag", (("group", OTHER), ("topic", OTHER))] == 5
    assert found["headgate_group_lag_seconds", (("group", OTHER), ("topic", OTHER))] == 499


def test_histograms_count_into_their_buckets() -> None:
    histogram = Histogram()
    histogram.add(0.0004, 5)
    histogram.add(0.001)
    histogram.add(100.0)
    found = samples(Snapshot(histograms={"sync_seconds": histogram}))
    assert found["headgate_sync_seconds_bucket", (("le", str(BOUNDS_S[0])),)] == 5
    assert found["headgate_sync_seconds_bucket", (("le", "0.001"),)] == 6
    assert found["headgate_sync_seconds_bucket", (("le", "60.0"),)] == 6
    assert found["headgate_sync_seconds_bucket", (("le", "+Inf"),)] == 7
    assert found["headgate_sync_seconds_count", ()] == 7
    assert abs(found["headgate_sync_seconds_sum", ()] - 100.003) < 1e-9


def test_lags_are_absent_until_they_are_known() -> None:
    assert not [name for name, _ in samples(Snapshot()) if name.startswith("headgate_group_lag")]


def test_ages_are_a_sample() -> None:
    registry = CounterRegistry(installed().words, lambda: 5_000)
    for _ in range(3 * SAMPLED):
        if registry.ages.due():
            registry.ages.add(4_000)
    assert sum(registry.ages.histogram.counts) == 3
    assert registry.ages.histogram.sum_s == 3.0


class Watched(dict[str, tuple[int, int]]):
    """Rows that count how often they are looked at."""

    seen = 0

    def items(self) -> Any:
        """The rows."""
        for row in super().items():
            self.seen += 1
            yield row


def test_a_piece_of_the_page_has_a_bounded_number_of_rows() -> None:
    topics = Watched({f"t{number}": (number, number) for number in range(5 * ROWS_AT_ONCE)})
    seen = 0
    texts = []
    for text in pieces(Snapshot(topics=topics), ()):
        assert topics.seen - seen <= ROWS_AT_ONCE + 1
        assert sum(not line.startswith(b"#") for line in text.splitlines()) <= 2 * SAMPLES_AT_ONCE
        seen = topics.seen
        texts.append(text)
    page = b"".join(texts)
    assert page.count(b"# TYPE headgate_topic_messages_total counter\n") == 1
    assert page.count(b"\nheadgate_topic_messages_total{") == ROWS_MAX + 1


def test_replicas_that_a_controller_hears_have_their_newest_figures() -> None:
    leader = ReplicaFigures(2_500, 3_000, 800, 2, paths=((2, 3_000), (3, 9_000)))
    heard = {
        ("broker-a", 1): (leader, Standing(Fitness.SLOW, "sync_us")),
        ("broker-a", 2): (ReplicaFigures(turn_us=0), Standing()),
    }
    found = samples(Snapshot(replicas=heard))
    of = {number: (("replica", str(number)), ("store_group", "broker-a")) for number in (1, 2)}
    name = "headgate_controller_replica_"
    assert found[name + "sync_seconds", of[1]] == 0.0025
    assert found[name + "ack_seconds", of[1]] == 0.003
    assert found[name + "path_seconds", of[1]] == 0.009
    assert (name + "path_seconds", of[2]) not in found, "a follower measures none"
    assert found[name + "errors", of[1]] == 2
    assert (found[name + "fitness", of[1]], found[name + "fitness", of[2]]) == (1, 0)
    assert found[name + "turn_seconds", of[2]] == 0
    assert (name + "sync_seconds", of[2]) not in found, "it was not measured"
