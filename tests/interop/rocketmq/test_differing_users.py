"""`[access] users = "cluster"` before two brokers whose users differ: who is not the same at both is not admitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from http.client import RemoteDisconnected

import pytest

from tests.interop.node import Node
from tests.interop.rocketmq.apache import TWO
from tests.interop.rocketmq.secured import SecuredCluster
from tests.interop.rocketmq.test_cluster_users import WAIT_S, gateway, send
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not SOAK, reason="brokers with users of their own, three minutes of two processors: make soak runs them"
    ),
]
PASSWORD = "password-of-ann"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Two brokers, which have ann and bob alike."""
    with SecuredCluster(tmp_path_factory.mktemp("pair"), TWO) as running:
        running.make_topic("orders")
        running.make_user("ann", PASSWORD, "Topic:orders", "Pub")
        running.make_user("bob", "password-of-bob", "Topic:orders", "Pub")
        yield running


@pytest.fixture(scope="module")
def node(pair: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway before them."""
    with gateway(pair, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def notified(node: Node, user: str, password: str, status: int) -> None:
    """Wait until a message of a user is answered so. Another one, who is the same at both brokers, is admitted all the time."""

    def answered() -> bool:
        # Who is admitted no more while a request is under way loses the connection.
        with suppress(RemoteDisconnected):
            return send(node, "orders", user, password) == status
        return False

    until(answered, WAIT_S, node.text)
    assert send(node, "orders", "bob", "password-of-bob") == 201


def admin(pair: SecuredCluster, *words: str) -> None:
    """A command of mqadmin, which must succeed."""
    said = pair.mqadmin(*words)
    assert "success" in said, said


def test_a_user_who_is_not_the_same_at_both_brokers_is_not_admitted(pair: SecuredCluster, node: Node) -> None:
    first, second = (pair.brokers[name].address for name in TWO)
    notified(node, "ann", PASSWORD, 201)
    admin(pair, "updateUser", "-b", second, "-u", "ann", "-p", "another")
    notified(node, "ann", PASSWORD, 401)
    assert send(node, "orders", "ann", "another") == 401
    assert "User:ann is at broker-a, and otherwise at broker-b; the user is nobody here" in node.text()
    assert "headgate_cluster_users_differing 1" in node.admin("/metrics", "admin:secret-of-admin")
    admin(pair, "copyUser", "-f", first, "-t", second, "-u", "ann")
    notified(node, "ann", PASSWORD, 201)
    admin(pair, "deleteUser", "-b", first, "-u", "ann")
    notified(node, "ann", PASSWORD, 401)


def test_a_user_of_one_broker_alone_is_not_admitted(pair: SecuredCluster, node: Node) -> None:
    for name, others in (TWO, TWO[::-1]):
        here, there = pair.brokers[name].address, pair.brokers[others].address
        user = f"only-{name}"
        admin(pair, "createUser", "-b", here, "-u", user, "-p", PASSWORD, "-t", "Normal")
        admin(pair, "createAcl", "-b", here, "-s", f"User:{user}", "-r", "Topic:orders", "-a", "Pub", "-d", "Allow")
        until(lambda user=user: f"User:{user} is at" in node.text(), WAIT_S, node.text)  # type: ignore[misc]
        notified(node, user, PASSWORD, 401)
        admin(pair, "copyUser", "-f", here, "-t", there, "-u", user)
        admin(pair, "copyAcl", "-f", here, "-t", there, "-s", f"User:{user}")
        notified(node, user, PASSWORD, 201)


def test_a_user_whose_policies_differ_has_no_rights(pair: SecuredCluster, node: Node) -> None:
    first, second = (pair.brokers[name].address for name in TWO)
    pair.make_user("carol", PASSWORD, "Topic:orders", "Pub")
    notified(node, "carol", PASSWORD, 201)
    admin(pair, "updateAcl", "-b", second, "-s", "User:carol", "-r", "Topic:orders", "-a", "Pub", "-d", "Deny")
    notified(node, "carol", PASSWORD, 403)
    assert "policies of User:carol are at broker-a, and otherwise at broker-b; the user has no policies here" in node.text()
    admin(pair, "copyAcl", "-f", first, "-t", second, "-s", "User:carol")
    notified(node, "carol", PASSWORD, 201)
