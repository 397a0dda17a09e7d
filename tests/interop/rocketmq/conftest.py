"""The cluster that all tests of this folder share: it takes long to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.client.client import Client
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.controllers import ControllerCluster
from tests.interop.rocketmq.secured import SecuredCluster


@pytest.fixture(scope="package")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Two masters of Apache RocketMQ 5.5.0 and their name server. A test that ends one of them starts it again.

    It ends with the last test of this folder.
    """
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as running:
        yield running


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that takes TLS alone and controls access, with the topics orders and others, and a user for each."""
    with SecuredCluster(tmp_path_factory.mktemp("secured")) as running:
        running.make_topic("orders")
        running.make_topic("others")
        running.make_user("alice", "password-of-alice", "Topic:orders", "Pub", "Sub")
        running.make_user("bob", "password-of-bob", "Topic:others", "Pub", "Sub")
        yield running


@pytest.fixture
def near(apache: ApacheCluster | ControllerCluster) -> Iterator[Client]:
    """A client at Apache's own side, whichever cluster the folder of the test has."""
    with Client(apache.nameserver.address) as client:
        yield client
