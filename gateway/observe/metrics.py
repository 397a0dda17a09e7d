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

COUNTERS: Final = {
    "mqtt_sessions_connected": "MQTT clients connected now",
    "mqtt_sessions_connected_max": "MQTT clients that were connected at the same time, at most",
    "mqtt_subscriptions": "Filters of MQTT clients that are connected",
    "mqtt_retained": "Latest values kept",
    "mqtt_retained_bytes": "Bytes of the latest values kept",
    "reloads_total": "Times that settings or certificates were read again and put in force",
    "reload_failures_total": "Times that settings or certificates could not be read again; what was in force stayed",
    "reload_broken": "Files now that could not be read again: settings, certificates",
    "held_off_total": "CONNECTs of MQTT clients that connected too often, refused while they are held off",
    "share_oversize_total": "Messages of a group that were too large for every MQTT member that was there",
    "watch_dropped_total": "Live messages that a watcher lost because too many came at once",
    "data_topics": "Topics of CoAP's publish-subscribe draft",
    "data_topics_refused_total": "Topics not made or not changed, because there were too many or their records too large",
    "data_topic_subscribers": "Subscribers of such topics",
    "data_topic_subscribers_refused_total": "Subscribers that a topic had no room for: they got its data once",
    "nameserver_brokers": "Brokers that are registered at this name server",
    "nameserver_routes": "Topics that they have registered",
    "controller_in_group": "1 while this controller takes part in its group",
    "controller_leads": "1 while it leads the controllers",
    "controller_term": "Term of the controllers' raft that it knows",
    "controller_members": "Controllers of its group, those that only follow too",
    "controller_store_groups": "Store groups that the controllers know",
    "controller_moves_total": "Moves of leadership away from replicas that are slow",
    "controller_moves_left_total": "Times that a replica was slow, or its clock off, and nothing was done: the log says why",
    "controller_passed_over_total": "Followers that were slow, and are waited for no more until they are well",
    "controller_replicas_out": "Replicas that should not lead now, since they were slow",
    "controller_clocks_off": "Replicas whose wall clocks are off by more than they allow",
    "controller_heartbeats_dropped_total": "Heartbeats of replicas that no store group has",
    "controller_messages_unread_total": "Messages of other controllers that could not be read",
    "replica_leads": "1 while this replica leads its store group",
    "replica_follows": "1 while it follows a leader that takes it",
    "replica_in_sync": "1 while it is in the SyncStateSet, by the last word of the controllers",
    "replica_learner": "1 of a learner, which is never in it",
    "replica_has_room": "0 while its volume takes no messages, or is not looked at yet",
    "replica_written_bytes": "Position up to which its log is written",
    "replica_synced_bytes": "Position up to which its log is durable",
    "replica_applied_bytes": "Position up to which a follower has applied its log, which readers are served up to",
    "replica_lag_bytes": "Bytes of the log that all members of the SyncStateSet have, and this follower does not",
    "replica_heard_age_seconds": "Time since a follower's leader has said something, which it does five times a second",
    "replica_followers": "Replicas that follow it now",
    "replica_members": "Members of the SyncStateSet, itself included",
    "replica_lacking": "Replicas that are not in sync: not 0 while the group is below its full strength",
    "replica_min_in_sync": "Members of the SyncStateSet that appends above flushed need",
    "replica_read_total": "Requests of readers that this replica has answered while it followed",
    "replica_elsewhere_total": "Requests of readers that it could not answer, and has sent to the leader",
    "replica_confirmed_bytes": "Position of the log up to which all of them have it",
    "replica_repaired_parts_total": "Damaged parts of the log that are whole again, from other replicas",
    "replica_repaired_bytes_total": "Bytes of these parts",
    "replica_repairs_failed_total": "Attempts to repair a damaged part that nobody could help with",
    "replica_repair_parts_given_total": "Parts of the log that other replicas were given for their repairs",
    "replica_slow": "Replicas of the group that are slow by the word of the controllers",
    "replica_sync_seconds": "Mean time of a sync of the log, as in this replica's last heartbeat",
    "replica_ack_seconds": "The same of the time to the answer of the fastest follower, of a leader",
    "replica_path_seconds": "The same of the slowest follower: far above the fastest when the path to it, or its disk, is slow",
    "replica_turn_seconds": "The same of the longest turn of the event loop",
    "replica_errors_total": "Reads that its disk has failed, appends that timed out, connections to other replicas that broke",
    "nameservers": "Name servers at which this node registers itself",
    "nameservers_registered": "Those of them at which it is registered",
    "streams_waiting": "Streams without a group whose readers have read everything, and wait for messages",
    "streams_leases": "Messages that streams of groups have leased, and whose end they are told",
    "messages_expired_total": "Messages settled instead of delivered, since they had expired",
    "gateway_store_connected": "connections that this gateway has to its store on another node",
    "gateway_store_attempts_total": "Attempts of this gateway to connect to its store",
    "gateway_store_losses_total": "Connections to the store that were lost",
    "gateway_unanswered_bytes": "Bytes of commands of clients that the store has not answered",
    "relay_clients": "Connections of remoting clients that are passed on to an Apache RocketMQ cluster",
    "relay_unanswered_bytes": "Bytes of their requests that its servers have not answered, long polls included",
    "relay_losses_total": "Connections to its servers that have ended, or could not be made",
    "relay_brokers": "Its brokers that have a port here",
    "cluster_users": "Users of the cluster that may be clients here",
    "cluster_users_differing": "Users about whom the brokers differ: they are nobody here, or have no policies",
    "cluster_users_age_seconds": "Time since a broker told them; -1: none has yet",
    "connections_max": "Connections of clients that are taken at once: the setting, or what the limit of open files leaves",
    "up_seconds": "Time since the node was ready",
    "uploads_held_bytes": "Bytes of HTTP and gRPC requests that are not complete yet",
    "unread_held_bytes": "Bytes of answers and deliveries that clients have not read",
    "admin_refused_total": "Connections of the admin port closed: too many at once, or a request too large or too slow",
    "webhook_subscriptions": "Subscriptions of webhooks that this process delivers for",
    "webhook_under_way": "Requests to sinks that have no answer yet",
    "webhook_attempts_total": "Requests to sinks",
    "webhook_delivered_total": "Messages that sinks have taken",
    "webhook_filtered_total": "Messages that no filter of their subscription wanted",
    "webhook_retried_total": "Messages that are tried again later",
    "webhook_dead_total": "Messages that became dead letters of subscriptions",
    "webhook_suspended_total": "Subscriptions suspended by this process: 410, no consent, an address that is not allowed",
    "webhook_breaker_opened_total": "Times that a sink was left alone after failures in a row",
    "webhook_refused_total": "Receives for subscriptions that the store refused",
    "webhook_unsettled_total": "Settlements that were refused: these messages may be delivered twice",
    "webhook_unrecorded_total": "Attempts that were made and could not be recorded",
    "webhook_replies_illegal_total": "Answers of sinks that should be published and are no events",
    "webhook_unknown_total": "Attempts whose outcome nobody knows: who sent them has ended before the answer",
    "webhook_timeouts_total": "Requests that a sink has not answered whole within their timeout",
    "webhook_answers_cut_total": "Answers of sinks that were longer than 64 KiB, and read up to that",
    "webhook_waits_capped_total": "Answers whose Retry-After was longer than their subscription takes",
    "webhook_topics_left_out": "Topics that a source beginning with a wildcard does not read, since there are too many",
    "webhook_claims_lost_total": "Times that this process ended its deliveries since its claims could not be renewed",
    "webhook_consents_sent_total": "Consents that senders of WebHooks have taken at their callback URLs",
    "webhook_consents_failed_total": "Consents that could not be sent there",
    "webhook_consents_dropped_total": "Consents that were not sent: too many at once, or within a minute",
    "uploads_refused_total": "HTTP and gRPC requests refused because incomplete ones held too many bytes",
}
HISTOGRAMS: Final = {
    "append_seconds": "Time from the acceptance of an append to its answer",
    "sync_seconds": "Time of one sync of the log",
    "loop_turn_seconds": "Time of the turn of the event loop that was under way when a timer was due",
    "delivery_seconds": "Age of messages when they are handed to clients, a sample of one delivery in sixteen",
}
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

    protocols    counts of each protocol
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
    compiled     compiled modules in use
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
