"""The cluster that all tests of this folder share: it takes long to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.rocketmq.apache import ApacheCluster


@pytest.fixture(scope="package")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Two masters of Apache RocketMQ 5.5.0 and their name server. A test that ends one of them starts it again.

    It ends with the last test of this folder: a broker that had a transaction keeps a processor busy from then on.
    """
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as running:
        yield running
