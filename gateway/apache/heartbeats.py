"""Heartbeats of this node to the brokers (HEART_BEAT): who produces in transactions here, and who reads.

Brokers send check-backs only to a connection that has named the producer group, and tools show a group as online only when a
connection has named it. One connection to a broker is one client there: this node, whoever its own clients are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import orjson

from domain.filter.filter import TAG
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.link.request import Request
from protocols.remoting import codes

PERIOD_NS: Final = 20 * SECOND_NS
"""Time between two heartbeats. Brokers forget a client after 120 s."""
GROUPS_MAX: Final = 100
"""Groups of one request."""
HEARTBEAT_MS: Final = 3_000


@final
class RocketmqHeartbeats:
    """Heartbeats with the groups in use at this node, sent to all brokers."""

    def __init__(
        self,
        brokers: Brokers,
        cluster: ClusterMap,
        clock: Clock,
        client_id: str,
        reading: Callable[[], Mapping[str, Sequence[str]]],
        has_producers: Callable[[str], bool],
    ) -> None:
        """Make it.

        client_id       what tools show; another node has another one
        reading         group -> topics that it receives from here
        has_producers   True while a producer group has a producer here; the others are named no more
        """
        self._brokers = brokers
        self._cluster = cluster
        self._clock = clock
        self._client_id = client_id
        self._has_producers = has_producers
        self._producers: dict[str, None] = {}
        self._reading = reading
        self._soon = False
        self._stopped = False
        cluster.follow(self._changed)

    def start(self) -> None:
        """Begin; the first heartbeat is sent when there is a group to name."""
        self._clock.call_at(self._clock.monotonic_ns() + PERIOD_NS, self._beat)

    def stop(self) -> None:
        """Send no more. Brokers see the connection end."""
        self._stopped = True

    def produces(self, group: str) -> None:
        """Send a heartbeat soon: `group` has a producer at this node."""
        self._producers[group] = None
        self._notify_soon()

    def reads(self) -> None:
        """Send a heartbeat soon: a group has started to receive at this node."""
        self._notify_soon()

    def _changed(self, name: str) -> None:
        """Send a heartbeat soon when the brokers have changed (`name` is "")."""
        if not name:
            self._notify_soon()

    def _notify_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self._clock.call_soon(self._notify)

    def _beat(self) -> None:
        if self._stopped:
            return
        self._clock.call_at(self._clock.monotonic_ns() + PERIOD_NS, self._beat)
        self._producers = {group: None for group in self._producers if self._has_producers(group)}
        self._notify()

    def _notify(self) -> None:
        self._soon = False
        if self._stopped:
            return
        producers = [{"groupName": group} for group in self._producers]
        readers = [self._reader(group, topics) for group, topics in self._reading().items()]
        for at in range(0, max(len(producers), len(readers)), GROUPS_MAX):
            body = orjson.dumps(
                {
                    "clientID": self._client_id,
                    "consumerDataSet": readers[at : at + GROUPS_MAX],
                    "heartbeatFingerprint": 0,
                    "producerDataSet": producers[at : at + GROUPS_MAX],
                    "withoutSub": False,
                }
            )
            for broker in self._cluster.brokers:
                request = Request(codes.HEARTBEAT, {"bname": broker}, body)
                self._brokers.ask(broker, request, lambda _: None, HEARTBEAT_MS)  # a lost one is followed by the next

    def _reader(self, group: str, topics: Sequence[str]) -> dict[str, object]:
        return {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_POP",
            "groupName": group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [
                {
                    "classFilterMode": False, "codeSet": [], "expressionType": TAG, "subString": "*", "subVersion": 0,
                    "tagsSet": [], "topic": topic,
                }
                for topic in topics
            ],
            "unitMode": False,
        }  # fmt: skip
