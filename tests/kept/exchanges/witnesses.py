"""Heartbeats of followers that have lost their leader (decision 113)."""

from __future__ import annotations

from domain.controller.replica_word import ReplicaWord
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import asked
from tests.kept.exchanges.exchange import Exchanges, request
from tests.kept.exchanges.raft import REPORTS

WITNESSES: Exchanges = {
    "heartbeat of a follower that has lost its leader": request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(REPORTS[0], run="run-2", parted=3), 3_000),
        ),
    )
}
