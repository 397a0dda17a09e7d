"""A store that takes TLS only and controls access: gateways reach it with its certificate and an access key."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.interop.cluster.cluster import ROLES
from tests.interop.node import Node
from tests.patience import until

pytestmark = pytest.mark.interop
ROOT = "root:secret-of-root"
WAIT_S = 60.0


def ask(node: Node, path: str, user: str = ROOT, body: bytes = b"x") -> tuple[int, object]:
    """(status, document) of a POST by HTTP, with Basic authentication."""
    manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
    name, _, password = user.partition(":")
    url = f"http://127.0.0.1:{node.port('http')}"
    manager.add_password(None, url, name, password, is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    try:
        with opener.open(urllib.request.Request(url + path, body), timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def says(node: Node, told: str) -> bool:
    return told in node.text()


def gateway(folder: Path, store: Node, ca: Path, key: str) -> Node:
    """A gateway before the store, not started yet."""
    folder.mkdir(parents=True)
    (folder / "key").write_text(key)
    where = f"127.0.0.1:{store.port('remoting')}"
    options = ("--store", where, "--store-ca", str(ca), "--access-key-file", str(folder / "key"))
    return Node(folder, ROLES, "gateway", *options, verb="run")


def test_a_gateway_reaches_a_store_of_tls_only_with_its_access_key(tmp_path: Path) -> None:
    with Node(tmp_path / "store", ROLES, "store", "--tls-only", "--admin", ROOT, verb="run") as store:
        certificate = store.data / "tls" / "certificate.pem"
        with gateway(tmp_path / "right", store, certificate, ROOT) as right:
            assert ask(right, "/v1/topics/secured/messages")[0] == 201
            status, found = ask(right, "/v1/groups/g/topics/secured:receive?max=1&wait_ms=20000&from=first", body=b"")
            assert status == 200, found
            assert isinstance(found, dict)
            assert len(found["messages"]) == 1
            assert ask(right, "/v1/topics/secured/messages", user="root:wrong")[0] == 401
            assert "TLS" in right.text()
        wrong = gateway(tmp_path / "wrong", store, certificate, "root:another-secret")
        stranger = gateway(tmp_path / "stranger", store, tmp_path / "other.pem", ROOT)
        (tmp_path / "other.pem").write_bytes(other_certificate(tmp_path))
        for node, told in ((wrong, "access_key_file"), (stranger, "certificate")):
            node.spawn()
            try:
                until(partial(says, node, told), WAIT_S, node.text)
                assert not says(node, "another-secret")
                assert not says(node, "secret-of-root")
            finally:
                node.kill()


def other_certificate(folder: Path) -> bytes:
    """The certificate of another node."""
    with Node(folder / "other", ROLES, "store", "--tls-only", "--admin", ROOT, verb="run") as other:
        return (other.data / "tls" / "certificate.pem").read_bytes()
