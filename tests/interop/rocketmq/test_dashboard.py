"""Every call of DefaultMQAdminExt that rocketmq-dashboard makes, with one and the same set of expected values: at the
address of a gateway, and straight at the broker and name server of Apache RocketMQ 5.5.0 behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.places import APACHE, GATEWAY, before
from tests.store.faults.soak import SOAK

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not SOAK, reason="the calls of Apache's dashboard, at two places: make soak runs them"),
]
AUTH = "org.apache.rocketmq.auth"
USERS: dict[str, object] = {
    "authenticationMetadataProvider": f"{AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
"""Settings of a broker that keeps users and rights, without asking clients for them."""


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """One broker: what is made by the calls is made in one broker."""
    with ApacheCluster(tmp_path_factory.mktemp("dashboard"), ("broker-a",), **USERS) as running:
        yield running


@pytest.mark.parametrize("kind", [APACHE, GATEWAY])
def test_every_call_of_the_dashboard_tells_facts(apache: ApacheCluster, java: JavaClient, kind: str, tmp_path: Path) -> None:
    with before(kind, apache, tmp_path) as there:
        done = java.run("Dashboard", there.nameserver, there.brokers["broker-a"], f"Board-{kind}")
        assert "OK dashboard" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
