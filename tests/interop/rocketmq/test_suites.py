"""Apache's own integration tests (rocketmq-test 5.5.0) at a gateway before Apache's brokers, and at their proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.test_apache_suite import TESTS, run
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.places import APACHE, GATEWAY, before
from tests.store.faults.soak import SOAK

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not SOAK, reason="two minutes of Apache's own tests before brokers: make soak runs them"),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """One broker, which checks half messages each second, as the suite wants it."""
    with ApacheCluster(tmp_path_factory.mktemp("suites"), ("broker-a",), transactionCheckInterval=1_000) as running:
        yield running


@pytest.mark.parametrize("kind", [GATEWAY, APACHE])
def test_the_tests_of_the_proxy_pass(alone: ApacheCluster, kind: str, tmp_path: Path) -> None:
    with before(kind, alone, tmp_path) as there:
        said = run(there, tmp_path, apache=kind == APACHE)
    assert f"ran {TESTS}, failed 0" in said, said
