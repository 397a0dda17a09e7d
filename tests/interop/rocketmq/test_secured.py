"""Gateways before a cluster of Apache's that takes TLS alone and controls access: keys of gateways, and of their clients."""

from __future__ import annotations

import base64
import json
import random
import re
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client.client import Client
from gateway.client.link import Link
from gateway.client.security import KeyPlace, Tls
from protocols.remoting import codes
from tests.interop import certificates
from tests.interop.http_api import request
from tests.interop.node import Node
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.secured import SecuredCluster
from tests.interop.rocketmq.test_gateway import Subscriber
from tests.patience import until
from tests.stored_records import stored_bodies

pytestmark = pytest.mark.interop
WAIT_S = 60.0


@pytest.fixture(scope="module")
def gateway(secured: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway with the key of the cluster's administrator."""
    folder = tmp_path_factory.mktemp("gateway")
    where, key, authority = secured.nameserver.address, secured.key_file, secured.certificate
    with gateway_before(where, folder, access_key_file=key, ca=authority) as node:
        yield node


def test_a_gateway_with_a_key_and_an_authority_serves(secured: SecuredCluster, gateway: Node) -> None:
    assert request(gateway, "POST", "/v1/topics/orders/messages", b"by http")[0] == 201
    publisher = Subscriber(gateway, "publisher", clean=True)
    publisher.publish("orders/of/mqtt", b"by mqtt", 1)
    publisher.leave()
    tls, key = Tls(str(secured.certificate)), KeyPlace(str(secured.key_file))
    with Client(secured.nameserver.address, tls=tls, key=key) as near:
        until(lambda: {b"by http", b"by mqtt"} <= set(stored_bodies(near, "orders")), WAIT_S)
    found: set[bytes] = set()
    path = "/v1/groups/readers/topics/orders"

    def receive() -> bool:
        code, answer = request(gateway, "POST", f"{path}:receive?max=8&wait_ms=1000&invisible_ms=60000")
        if code == 200:
            messages = json.loads(answer)["messages"]
            found.update(base64.b64decode(each["body"]) for each in messages)
            receipts = json.dumps({"receipts": [each["receipt"] for each in messages]}).encode()
            assert all(each["ok"] for each in json.loads(request(gateway, "POST", f"{path}:ack", receipts)[1])["results"])
        return {b"by http", b"by mqtt"} <= found

    until(receive, WAIT_S, lambda: str(found))


@pytest.mark.parametrize("user", ["alice", "bob", "mallory"])
def test_a_client_that_is_relayed_is_judged_by_the_cluster_by_its_own_key(
    secured: SecuredCluster, gateway: Node, user: str
) -> None:
    key = KeyPlace(str(secured.key_of(user, f"password-of-{user}")))
    fields = {
        "a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    link = Link(f"127.0.0.1:{gateway.port('remoting')}", 10, key=key)
    try:
        (reply,) = link.ask([(codes.SEND_V2, fields, f"of {user} {random.random()}".encode())])
    finally:
        link.close()
    assert reply.code == (codes.SUCCESS if user == "alice" else codes.NO_PERMISSION), reply.remark


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no key", "username cannot be null.*access_key_file"),
        ("wrong key", "check signature failed.*access_key_file"),
        ("no tls", "127.0.0.1:[0-9]+"),
        ("wrong authority", "certificate"),
    ],
)
def test_what_is_wrong_with_the_credentials_is_told_while_the_gateway_waits(
    secured: SecuredCluster, tmp_path: Path, fault: str, said: str
) -> None:
    key, authority = secured.key_file, secured.certificate
    if fault == "wrong key":
        key = tmp_path / "key"
        key.write_text("admin:not-the-password\n")
    other, _ = certificates.write(tmp_path / "other", 2)
    node = gateway_before(
        secured.nameserver.address, tmp_path / "gateway", access_key_file=None if fault == "no key" else key,
        ca=None if fault == "no tls" else other if fault == "wrong authority" else authority,
    )  # fmt: skip
    node.folder.mkdir()
    node.spawn()
    try:
        until(lambda: re.search(f"WARNING.*waits for.*{said}", node.text()) is not None, WAIT_S, node.text)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            node.admin("/readyz")
    finally:
        node.kill()
