"""The cluster in controller mode that all tests of this folder share, and gateways before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.rocketmq.controllers import ControllerCluster
from tests.interop.rocketmq.gateway import gateway_before


@pytest.fixture(scope="package")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerCluster]:
    """In place of the two masters of the other folders: three name servers with controllers, two groups of two brokers."""
    with ControllerCluster(tmp_path_factory.mktemp("controllers")) as running:
        yield running


@pytest.fixture
def gateways(apache: ControllerCluster, tmp_path: Path) -> Iterator[list[Node]]:
    """Two gateways, and those that a test adds."""
    running = [gateway_before(apache.addresses, tmp_path / f"gateway-{number}").start() for number in range(2)]
    try:
        yield running
    finally:
        for each in running:
            each.kill()


@pytest.fixture(scope="module")
def gateway(apache: ControllerCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One gateway."""
    node = gateway_before(apache.addresses, tmp_path_factory.mktemp("gateway")).start()
    try:
        yield node
    finally:
        node.kill()
