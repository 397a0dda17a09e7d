"""Californium as a device: CoAP, DTLS with a key and with a certificate, and OSCORE, in one process against a real node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gateway.runtime.security import openssl
from tests.interop import certificates
from tests.interop.node import Node
from tests.interop.webhooks.api import Api
from tests.interop.workshop import CLIENTS, java_classpath, jvm

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(openssl.library() is None, reason="libssl.so.3 is not installed"),
]
ALL = {"resource": "*", "actions": ["All"]}


def test_every_scene(tmp_path: Path) -> None:
    classpath = java_classpath(CLIENTS / "java" / "californium", "Californium")
    certificate, key = certificates.write(tmp_path / "pair", 7)
    options = ("--admin", "root:rootsecret", "--certificate", str(certificate), "--key", str(key))
    config = tmp_path / "headgate.toml"
    config.write_text('[access]\nanonymous = "guest"\n')
    with Node(tmp_path, *options, "--client-ca", str(certificate), "--config", str(config)) as node:
        root = Api(node, "root:rootsecret")
        assert root.call("POST", "/v1/users/sensor", {"password": "a long secret"})[0] == 204
        context = {"device_id": "01", "node_id": "02", "secret": bytes(range(1, 17)).hex()}
        assert root.call("PUT", "/v1/users/sensor/oscore", context)[0] == 204
        for user in ("sensor", "localhost", "guest"):
            assert root.call("PUT", f"/v1/users/{user}/policies", ALL)[0] == 204
        ports = (str(node.port("coap")), str(node.port("coaps")))
        command = [*jvm(classpath), "Devices", *ports, str(certificate), str(key)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert re.findall(r"FAILED .*", done.stdout) == [], done.stdout
        played = sorted(re.findall(r"OK (\w+)", done.stdout))
        assert played == ["certificate", "key", "oscore", "udp"], done.stdout + done.stderr
