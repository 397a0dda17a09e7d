"""Which processes deliver to webhooks, and that wrong settings stop a node before it serves anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from domain.admin.subscription import ClaimSubscriptions
from domain.command import Command
from domain.errors import ConfigError
from gateway.connection.client_connection import ClientConnection
from gateway.node.node import Node
from gateway.node.settings import Config
from gateway.webhooks.declaration import WebhookClients
from tests.gateway.node.running import served
from tests.simulation.kit.clock import VirtualClock


class Gate:
    """Takes commands, and answers none."""

    def __init__(self) -> None:
        self.claims: list[ClaimSubscriptions] = []

    def handle(self, connection: ClientConnection, command: Command) -> None:
        if isinstance(command, ClaimSubscriptions):
            self.claims.append(command)


def config(roles: str, tables: Mapping[str, Mapping[str, object]]) -> Config:
    return Config(roles=roles, tables=tables)


def claims(roles: str, tables: Mapping[str, Mapping[str, object]]) -> list[int]:
    """Capacities of the claims that a process makes from its begin to its end."""

    async def run() -> list[int]:
        gate, clients = Gate(), WebhookClients(config(roles, tables), VirtualClock())
        made, granting = clients.work(gate), clients.granting
        if made is None:
            return []
        assert (gate.claims, granting.courier) == ([], None), "not before clients are served"
        made.begin()
        assert granting.courier is not None
        assert "webhook_consents_sent_total" in made.figures()
        made.pause()
        assert granting.courier is None
        await made.close()
        return [each.capacity for each in gate.claims]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("roles", "tables", "delivers"),
    [
        ("gateway,store,nameserver", {}, True), ("gateway", {}, True), ("store", {}, False), ("nameserver", {}, False),
        ("gateway,store", {"webhook": {"deliver": False}}, False),
        ("gateway", {"store": {"kind": "rocketmq"}}, False),
    ],
)  # fmt: skip
def test_processes_that_serve_clients_claim_subscriptions_and_give_them_back(
    roles: str, tables: dict[str, dict[str, object]], delivers: bool
) -> None:  # fmt: skip
    found = claims(roles, tables)
    assert len(found) == (2 if delivers else 0)
    assert not found or (found[0] > 0 and found[1] == 0)


def test_an_authority_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    async def never(node: Node) -> None:
        pytest.fail("it serves")

    with pytest.raises(ConfigError, match=r"webhook\.ca"):
        served(tmp_path, never, **{"webhook.ca": "/nowhere"})
