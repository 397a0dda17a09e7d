"""Elections that keep the dead in a SyncStateSet (decision 112)."""

from __future__ import annotations

from functools import partial

from controller.groups import command as group_command
from domain.controller.change import ElectLeader
from tests.kept.exchanges.exchange import Exchange, Exchanges
from tests.kept.exchanges.raft import REPORTS

KEEPS = ElectLeader("broker-a", REPORTS, 1, 2, 5, "", (), True)

KEEPING: Exchanges = {
    "command: elect, and keep the dead": Exchange(partial(group_command.encode, KEEPS), group_command.decode),
}
