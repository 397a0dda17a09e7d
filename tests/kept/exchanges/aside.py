"""Frames by which replicas say what they have set aside, and controllers pass it on."""

from __future__ import annotations

from domain.controller.replica_word import ReplicaWord
from domain.controller.request import StoreGroupsListed
from domain.set_aside import KeptAside
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import LIST, asked, heard
from tests.kept.exchanges.exchange import Exchanges, answer, request
from tests.kept.exchanges.raft import REPORTS
from tests.kept.exchanges.since import REFUSES, RUNNING

KEPT = KeptAside(2, 9_000)
WORD = heard(0, refuses=REFUSES[0].word.refuses, aside=KEPT)
KEPT_ASIDE: Exchanges = {
    "heartbeat with what was set aside": request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(REPORTS[0], aside=KEPT), 3_000),
        ),
    ),
    "list with what was set aside": answer(
        READERS, LIST, StoreGroupsListed(None, None, [(RUNNING, (WORD,))]), asking.listed
    ),
}  # fmt: skip
