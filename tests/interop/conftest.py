"""Fixtures of the tests with foreign clients, and which of them are left out over several gateways."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.cluster.one_process import ONE_PROCESS
from tests.interop.cluster.spread import VARIABLE
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Over several gateways, skip what is about one process, with the reason; the last line of the run names it."""
    if not int(os.environ.get(VARIABLE, "0")):
        return
    for item in items:
        reason = ONE_PROCESS.get(item.nodeid.partition("[")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"one process only: {reason}"))


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    """The Java client of RocketMQ; all modules of a worker share its process of mqadmin."""
    return build(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests of a file."""
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running
