"""The node's metrics in Prometheus' text format, by prometheus-client.

`Snapshot` is taken in one turn of the loop and costs little. The text of it may take long with many rows, so `pieces` makes it
piece by piece, each in a millisecond or so.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from itertools import chain, islice
from typing import Any, Final, TypeVar, cast, final

from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from domain.controller.health import UNMEASURED, ReplicaFigures, Standing
from domain.histogram import BOUNDS_S, Histogram
from gateway.observe.counter_texts import COUNTERS, HISTOGRAMS
from gateway.observe.counters import ProtocolCounters
from gateway.observe.lag import LagRow

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
ROWS_MAX: Final = 1_000
"""Rows of one metric by topic or group; what further ones have is in the row OTHER."""
SAMPLES_AT_ONCE: Final = 128
"""Samples whose text is made at once, which takes some half a millisecond."""
ROWS_AT_ONCE: Final = 1_024
"""Rows of topics or groups that are looked at at once."""
OTHER: Final = "(other)"
"""Value of a label that no topic or group can have as a name."""

REPLICAS_SHOWN: Final = 1_000
"""Replicas whose figures a controller shows, in the order of their names."""
Row = TypeVar("Row")

_FIGURES: Final[tuple[tuple[str, str, Callable[[ReplicaFigures, Standing], int]], ...]] = (
    ("sync_seconds", "Mean time of a sync of a replica's log, as last said", lambda figures, _: figures.sync_us),
    ("ack_seconds", "Time to the answer of the fastest follower, of a leader, as last said", lambda figures, _: figures.ack_us),
    ("path_seconds", "The same of the slowest follower", lambda figures, _: figures.path_us),
    ("turn_seconds", "Longest turn of a replica's event loop, as last said", lambda figures, _: figures.turn_us),
    ("errors", "Errors of a replica between two heartbeats, as last said", lambda figures, _: figures.errors),
    ("fitness", "0: it may lead, 1: it was slow, 2: its clock is off", lambda _, standing: int(standing.fitness)),
)
_PLAIN: Final = (
    ("messages_in", "Messages taken from clients"),
    ("messages_out", "Messages handed to clients"),
    ("bytes_in", "Bytes read from sockets"),
    ("bytes_out", "Bytes written to sockets"),
    ("connections_opened", "Connections since the start"),
)
_BY_REASON: Final = (
    ("refusals", "Refused commands and connections, by reason"),
    ("disconnects", "Ended connections, by reason"),
    ("dropped", "Datagrams and requests that came to nothing, by reason"),
)


@dataclass(frozen=True, slots=True)
class ProtocolRow:
    """The counts of one protocol: `plain` by the names of _PLAIN, and by reason."""

    protocol: str
    plain: Mapping[str, int]
    connections_open: int
    reasons: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the metrics page shows, at one moment.

    store        values of the store by name, without the prefix `headgate_store_`
    counters     values of other parts of the node, by the names of COUNTERS
    access       refusals of access control, by cause
    lost         messages that did not reach MQTT clients, by reason
    topics       topic -> (messages, bytes) stored in it
    deliveries   (group, topic) -> (messages, bytes) delivered
    stored       (messages, bytes) stored in all topics
    delivered    (messages, bytes) delivered to all groups
    lags         of the groups with most lag
    other_lags   of all other groups together, None when there are none
    lag_age_s    age of `lags`; below 0: not known yet
    replicas     (store group, replica) -> its figures and fitness to lead, as reported to and judged by a controller
    histograms   by the names of HISTOGRAMS
    """

    protocols: Sequence[ProtocolRow] = ()
    store: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    access: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    topics: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    deliveries: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    stored: tuple[int, int] = (0, 0)
    delivered: tuple[int, int] = (0, 0)
    lags: Sequence[LagRow] = ()
    other_lags: LagRow | None = None
    lag_age_s: float = -1.0
    replicas: Mapping[tuple[str, int], tuple[ReplicaFigures, Standing]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    compiled: int = 0


@final
class _Piece(Collector):
    """Registry with a single metric, from which `generate_latest` writes its text.

    The metric is a whole family, or one with at most SAMPLES_AT_ONCE of the family's samples.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """The metric."""
        return (self._metric,)


def _families(snapshot: Snapshot) -> Iterator[Metric | None]:
    """All families of a snapshot; None where the work may be left for the next turn of the loop."""
    yield _build(snapshot)
    yield from _protocols(snapshot.protocols)
    yield _by_reason("access_refusals", "Credentials and commands refused by access control, by cause", snapshot.access)
    yield _by_reason("mqtt_lost", "Messages that MQTT clients have sent or were to get, and that are lost", snapshot.lost)
    yield from _topics(snapshot)
    yield from _lags(snapshot)
    yield from _replicas(snapshot)
    for name, about in COUNTERS.items():
        if name in snapshot.counters:
            yield _plain(name, about, snapshot.counters[name])
    for name, value in sorted(snapshot.store.items()):
        yield _plain(f"store_{name}", f"The store's {name}", value)
    for name, histogram in snapshot.histograms.items():
        yield _histogram(name, histogram)


def row_of(counters: ProtocolCounters) -> ProtocolRow:
    """The counts of a protocol now."""
    plain = {name: int(getattr(counters, name)) for name, _ in _PLAIN}
    reasons = {
        "refusals": counters.all_refusals(),
        "disconnects": counters.all_disconnects(),
        "dropped": dict(counters.dropped),
    }
    return ProtocolRow(counters.protocol, plain, counters.connections_open, reasons)


def process_families() -> list[Metric]:
    """What the kernel and the interpreter say about the process. Lists all open files, so it may take milliseconds."""
    return [metric for collector in _PROCESS for metric in collector.collect()]


def pieces(snapshot: Snapshot, process: Iterable[Metric]) -> Iterator[bytes]:
    """The text of a snapshot behind that of `process`, at most 2 * SAMPLES_AT_ONCE samples a piece. A piece may be empty."""
    texts: list[bytes] = []
    count = 0
    for metric in chain(process, _families(snapshot)):
        if metric is None:
            yield b""
            continue
        for at in range(0, max(1, len(metric.samples)), SAMPLES_AT_ONCE):
            part = Metric(metric.name, metric.documentation, metric.type)
            part.samples = metric.samples[at : at + SAMPLES_AT_ONCE]
            text = generate_latest(cast(CollectorRegistry, _Piece(part)))
            # The lines HELP and TYPE stand once, before the first samples.
            texts.append(text if at == 0 else text.split(b"\n", 2)[2])
            count += 1 + len(part.samples)
            if count > SAMPLES_AT_ONCE:
                yield b"".join(texts)
                texts, count = [], 0
    yield b"".join(texts)


def _build(snapshot: Snapshot) -> Metric:
    try:
        version = metadata.version("headgate")
    except metadata.PackageNotFoundError:
        version = "unknown"
    family = GaugeMetricFamily("headgate_build_info", "What runs", labels=("version", "python", "compiled_modules"))
    family.add_metric((version, platform.python_version(), str(snapshot.compiled)), 1)
    return family


def _plain(name: str, about: str, value: float) -> Metric:
    if name.endswith("_total"):
        return CounterMetricFamily(f"headgate_{name}", about, value)
    return GaugeMetricFamily(f"headgate_{name}", about, value)


def _by_reason(name: str, about: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"headgate_{name}", about, labels=("reason",))
    for reason, count in sorted(counts.items()):
        family.add_metric((reason,), count)
    return family


def _protocols(rows: Sequence[ProtocolRow]) -> Iterator[Metric]:
    for name, about in _PLAIN:
        family = CounterMetricFamily(f"headgate_{name}", about, labels=("protocol",))
        for row in rows:
            family.add_metric((row.protocol,), row.plain[name])
        yield family
    gauge = GaugeMetricFamily("headgate_connections_open", "Connections open now", labels=("protocol",))
    for row in rows:
        gauge.add_metric((row.protocol,), row.connections_open)
    yield gauge
    for name, about in _BY_REASON:
        family = CounterMetricFamily(f"headgate_{name}", about, labels=("protocol", "reason"))
        for row in rows:
            for reason, count in sorted(row.reasons[name].items()):
                family.add_metric((row.protocol, reason), count)
        yield family


def _topics(snapshot: Snapshot) -> Iterator[Metric | None]:
    """Counters by topic and by group: the rows with most messages, and one for all the others."""
    stored = yield from _largest(snapshot.topics.items(), _most_messages)
    delivered = yield from _largest(snapshot.deliveries.items(), _most_messages)
    for at, what in enumerate(("messages", "bytes")):
        family = CounterMetricFamily(f"headgate_topic_{what}", f"{what.title()} stored in a topic", labels=("topic",))
        for topic, counts in stored:
            family.add_metric((topic,), counts[at])
        family.add_metric((OTHER,), max(0, snapshot.stored[at] - sum(counts[at] for _, counts in stored)))
        yield family
    for at, what in enumerate(("messages", "bytes")):
        family = CounterMetricFamily(
            f"headgate_group_{what}", f"{what.title()} delivered to a group, redeliveries included", labels=("group", "topic")
        )
        for (group, topic), counts in delivered:
            family.add_metric((group, topic), counts[at])
        family.add_metric((OTHER, OTHER), max(0, snapshot.delivered[at] - sum(counts[at] for _, counts in delivered)))
        yield family


def _replicas(snapshot: Snapshot) -> Iterator[Metric]:
    """What replicas say to this controller: the newest figures of at most REPLICAS_SHOWN."""
    if not snapshot.replicas:
        return
    shown = sorted(snapshot.replicas.items())[:REPLICAS_SHOWN]
    for name, about, read in _FIGURES:
        family = GaugeMetricFamily(f"headgate_controller_replica_{name}", about, labels=("store_group", "replica"))
        for (group, replica), (figures, standing) in shown:
            value = read(figures, standing)
            if value != UNMEASURED:
                family.add_metric((group, str(replica)), value / 1e6 if name.endswith("_seconds") else value)
        yield family


def _lags(snapshot: Snapshot) -> Iterator[Metric]:
    if snapshot.lag_age_s < 0:
        return
    messages = GaugeMetricFamily(
        "headgate_group_lag",
        "Messages that a group has not settled, as of headgate_group_lag_age_seconds",
        labels=("group", "topic"),
    )
    seconds = GaugeMetricFamily("headgate_group_lag_seconds", "Age of the oldest of these messages", labels=("group", "topic"))
    for row in snapshot.lags:
        messages.add_metric((row.group, row.topic), row.messages)
        seconds.add_metric((row.group, row.topic), row.seconds)
    if snapshot.other_lags is not None:
        messages.add_metric((OTHER, OTHER), snapshot.other_lags.messages)
        seconds.add_metric((OTHER, OTHER), snapshot.other_lags.seconds)
    yield messages
    yield seconds
    yield GaugeMetricFamily("headgate_group_lag_age_seconds", "Age of the lags: they are read in turns", snapshot.lag_age_s)


def _most_messages(row: tuple[Any, tuple[int, int]]) -> tuple[int, Any]:
    return -row[1][0], row[0]


def _largest(rows: Iterable[Row], key: Callable[[Row], Any]) -> Generator[None, None, list[Row]]:
    """The first ROWS_MAX of `rows` in the order of `key`. Yields after each ROWS_AT_ONCE of them."""
    found: list[Row] = []
    left = iter(rows)
    while some := list(islice(left, ROWS_AT_ONCE)):
        found = sorted(found + some, key=key)
        del found[ROWS_MAX:]
        yield
    return found


def _histogram(name: str, histogram: Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*(str(bound) for bound in BOUNDS_S), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(f"headgate_{name}", HISTOGRAMS[name], buckets, histogram.sum_s)


_PROCESS: Final[Sequence[Collector]] = (
    cast(Collector, ProcessCollector(registry=cast(CollectorRegistry, None))),
    cast(Collector, PlatformCollector(registry=cast(CollectorRegistry, None))),
)
