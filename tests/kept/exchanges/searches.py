"""What a gateway without a store says to the controllers, and they to tools (decision 125)."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.gateway_search import GatewaySearch
from domain.controller.request import ControllerFound
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import ASK, CONTROLLER, asked
from tests.kept.exchanges.exchange import Exchanges, answer, request

SEARCH = GatewaySearch("gw-2", "10.0.0.1:10911, 10.0.0.2:10911", "10.0.0.2:10911: connection refused", 41_000)
TELLS: ControllerFound = replace(CONTROLLER, searching=[SEARCH])

SEARCHES: Exchanges = {
    "gateway without a store": request(READERS, asked(codes.HEAR_GATEWAY, asking.searching("0a1b", SEARCH))),
    "answer with gateways that search": answer(READERS, ASK, TELLS, asking.controller_of),
}
