"""A gateway of ours in a process of its own, before a cluster of Apache's."""

from __future__ import annotations

from pathlib import Path

from tests.interop.node import Node


def gateway_before(nameserver: str, folder: Path, *options: str, verb: str = "run", **store: object) -> Node:
    """A gateway with its own data folder. It is not started. Brokers have no ports of their own unless `broker_ports` is given.

    nameserver   host:port, also more than one
    options      more of its options
    verb         "run" starts a gateway alone, "up" all roles
    store        settings of the table [store]; None: not set
    """
    roles = ("--roles", "gateway") if verb == "run" else ()
    settings = {"broker_ports": 0, **store}
    environment = {f"HEADGATE_STORE_{name.upper()}": str(value) for name, value in settings.items() if value is not None}
    return Node(folder, *roles, "--store", f"rocketmq://{nameserver}", *options, environment=environment, verb=verb)
