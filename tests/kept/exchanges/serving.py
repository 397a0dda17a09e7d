"""What replicas say of clients, gateways and their group, and controllers of whom they refuse (decision 125)."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ControllerFound, GatewayMissed, StoreGroupsListed, StrangerSeen
from domain.controller.serving import SERVES_NOBODY, GatewayWord, ServingWord
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import ASK, CONTROLLER, HEARD, LIST, asked, heard
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request
from tests.kept.exchanges.raft import GROUP, REPORTS

LEADS = ServingWord(4, "only 3% of the volume is free", (GatewayWord("0a1b", "10.0.1.1"), GatewayWord("0c", "gw-2", 5_200)))
TELLS: ControllerFound = replace(
    CONTROLLER,
    strangers=[StrangerSeen("broker-a", "10.9.9.9", "it is of another store group", 1_200)],
    gateways=[GatewayMissed("broker-a", "gw-2", 40_900)],
)


def _beat(word: ServingWord) -> Exchange:
    fields = asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(REPORTS[0], run="run-2", serving=word), 3_000)
    return request(READERS, asked(codes.BROKER_HEARTBEAT, fields))


SERVING: Exchanges = {
    "heartbeat of a leader": _beat(LEADS),
    "heartbeat of one that serves nobody": _beat(SERVES_NOBODY),
    "list with a leader": answer(
        READERS, LIST, StoreGroupsListed(None, None, [(GROUP, (HEARD[1], heard(0, serving=LEADS)))]), asking.listed
    ),
    "query of a replica": request(
        READERS, asked(codes.LIST_STORE_GROUPS, {}, asking.listing("", ("broker-a",), "00ff"))
    ),
    "answer with strangers and gateways": answer(READERS, ASK, TELLS, asking.controller_of),
}  # fmt: skip
