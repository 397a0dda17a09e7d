"""A running server applies changed certificates, rules, passwords and limits, which real clients notice."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from cryptography import x509
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.interop import certificates
from tests.interop.node import Node
from tests.patience import until

pytestmark = pytest.mark.interop

ADMIN = "root:r00t-and-branch"
RULES = """
[access]
enabled = true
anonymous = "guest"
[[access.rules]]
filter = "open/#"
"""
NO_RULES = """
[access]
enabled = true
anonymous = "guest"
"""


def serial(port: int) -> int:
    """The serial number of the certificate that a new connection gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain) as secure:
        shown = secure.getpeercert(True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def serials(node: Node, port: str) -> set[int]:
    """The serial numbers that the processes of the server show: a balancer gives the next connection to the next one."""
    return {serial(node.port(port)) for _ in node.pids}


def loaded(node: Node, name: str, user: str = "") -> dict[str, object]:
    """The state of one source of the reload, from the admin port."""
    found: list[dict[str, object]] = json.loads(node.admin("/v1/admin/loaded", user))
    return next(subject for subject in found if subject["name"] == name)


class Client:
    """A paho client for MQTT 5 that records the server's reason codes."""

    def __init__(self, node: Node, port: str = "mqtt", name: str = "c", user: tuple[str, str] | None = None) -> None:
        self.codes: list[int] = []
        self.ended: list[int] = []
        self.connected: list[int] = []
        self.granted: list[int] = []
        version = MQTTProtocolVersion.MQTTv5
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, reconnect_on_failure=False)
        self.client.on_publish = lambda _c, _u, _m, code, _p: self.codes.append(code.value)
        self.client.on_disconnect = lambda _c, _u, _f, code, _p: self.ended.append(code.value)
        self.client.on_connect = lambda _c, _u, _f, code, _p: self.connected.append(code.value)
        self.client.on_subscribe = lambda _c, _u, _m, codes, _p: self.granted.extend(code.value for code in codes)
        if user is not None:
            self.client.username_pw_set(*user)
        if port == "mqtts":
            self.client.tls_set(cert_reqs=ssl.CERT_NONE)
            self.client.tls_insecure_set(True)
        self.client.connect("127.0.0.1", node.port(port))
        self.client.loop_start()
        until(lambda: bool(self.connected), 30)

    def publish(self, topic: str) -> int:
        """Publish at QoS 1. Returns the reason code of PUBACK."""
        before = len(self.codes)
        self.client.publish(topic, b"x", 1)
        until(lambda: len(self.codes) > before, 30)
        return self.codes[-1]

    def close(self) -> None:
        """Disconnect and stop the client's thread."""
        self.client.disconnect()
        self.client.loop_stop()


def test_certificate_is_swapped_under_a_running_server(tmp_path: Path) -> None:
    certificate, key = certificates.write(tmp_path / "tls", 1001)
    options = ("--durability", "page", "--certificate", str(certificate), "--key", str(key))
    with Node(tmp_path / "node", *options) as node:
        stays = Client(node, "mqtts")
        assert serials(node, "mqtts") == serials(node, "http") == {1001}
        certificates.write(tmp_path / "tls", 1002)
        until(lambda: serials(node, "mqtts") == {1002}, 30)
        assert serials(node, "http") == {1002}
        assert stays.publish("t") == 0
        certificate.write_text("this is no certificate")
        until(lambda: loaded(node, "certificates")["fault"] != "", 30)
        until(lambda: f"headgate_reload_broken {len(node.pids)}" in node.admin("/metrics"), 30)
        assert serials(node, "mqtts") == {1002}
        assert "what was in force stays in force" in node.text()
        certificates.write(tmp_path / "tls", 1003)
        until(lambda: serials(node, "mqtts") == {1003}, 30)
        state = loaded(node, "certificates")
        assert (state["serial"], state["fault"]) == (f"{1003:x}", "")
        until(lambda: "headgate_reload_broken 0" in node.admin("/metrics"), 30)
        assert stays.publish("t") == 0
        stays.close()


def test_rule_that_is_gone_refuses_the_next_publish_and_ends_subscriptions(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(RULES)
    with Node(tmp_path / "node", "--durability", "page", "--config", str(file), "--admin", ADMIN) as node:
        sender, listener = Client(node, name="sender"), Client(node, name="listener")
        listener.client.subscribe("open/#", 1)
        until(lambda: listener.granted == [1], 30)
        assert sender.publish("open/door") == 0
        file.write_text("[access]\nanonimous = 'guest'\n")
        until(lambda: loaded(node, "settings", ADMIN)["fault"] != "", 30)
        assert sender.publish("open/door") == 0
        file.write_text(NO_RULES)
        until(lambda: loaded(node, "settings", ADMIN)["fault"] == "", 30)
        assert sender.publish("open/door") == 0x87
        until(lambda: listener.ended == [0x87], 3)
        file.write_text(RULES)
        node.signal(signal.SIGHUP)
        until(lambda: sender.publish("open/door") == 0, 30)
        sender.close()


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed")
def test_password_that_changes_ends_who_had_the_old_one(tmp_path: Path) -> None:
    admin = tmp_path / "admin"
    admin.write_text("root:first\n")
    with Node(tmp_path / "node", "--durability", "page", "--admin-file", str(admin)) as node:

        def publishes(password: str) -> bool:
            who = ["mosquitto_pub", "-p", str(node.port("mqtt")), "-u", "root", "-P", password]
            command = [*who, "-t", "t", "-m", "x", "-q", "1"]
            return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0

        assert publishes("first")
        stays = Client(node, user=("root", "first"))
        admin.write_text("root:second\n")
        until(lambda: stays.ended == [0x98], 4)
        assert not publishes("first")
        assert publishes("second")


def test_operator_asks_for_it_and_hears_what_waits_for_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text("port_offset = 0\n")
    with Node(tmp_path / "node", "--durability", "page", "--config", str(file)) as node:
        file.write_text('cluster = "Another"\n[limits]\nmessages_per_s = 1\nburst_s = 1\n')
        request = urllib.request.Request(f"http://127.0.0.1:{node.port('admin')}/v1/admin/reload", method="POST")
        with urllib.request.urlopen(request, timeout=5) as answer:
            state = json.load(answer)
        assert state[0]["waiting_for_restart"] == ["cluster"]
        connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=5)
        answers: list[tuple[int, str | None]] = []
        for _ in range(4):
            connection.request("POST", "/v1/topics/t/messages", b"x")
            answer = connection.getresponse()
            answer.read()
            answers.append((answer.status, answer.getheader("Retry-After")))
        connection.close()
        assert answers[0] == (201, None)
        assert (429, "1") in answers
