"""The environment of a node that a test composes: all installed protocols, and the names of its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from domain.ports import Clock, Entropy
from gateway.node.client_side import ClientPlace, counters_of
from gateway.node.protocols import installed
from gateway.node.settings import Config


def place_of(config: Config, ports: Mapping[str, int], host: str, clock: Clock, entropy: Entropy) -> ClientPlace:
    """The environment of a node with a store of its own."""
    protocols = installed()
    return ClientPlace(
        config=config,
        ports=ports,
        host=host,
        broker=config.broker,
        clock=clock,
        entropy=entropy,
        protocols=protocols,
        counters=counters_of(protocols, clock),
    )
