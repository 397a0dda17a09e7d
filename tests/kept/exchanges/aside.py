"""Frames by which replicas say what they have set aside, and controllers pass it on."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.request import StoreGroupsListed
from domain.set_aside import KeptAside
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import LIST, asked
from tests.kept.exchanges.exchange import Exchanges, answer, request
from tests.kept.exchanges.raft import REPORTS
from tests.kept.exchanges.since import REFUSES, RUNNING

KEPT = KeptAside(2, 9_000)
KEPT_ASIDE: Exchanges = {
    "heartbeat with what was set aside": request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.1:10912", REPORTS[0], 3_000, None, aside=KEPT),
        ),
    ),
    "list with what was set aside": answer(
        READERS, LIST, StoreGroupsListed(None, None, [(RUNNING, (replace(REFUSES[0], aside=KEPT),))]), asking.listed
    ),
}  # fmt: skip
