"""Backups of a real node under load of several protocols, kill -9, and a restore into a new directory: nothing that was
acknowledged before the backup began is missing, messages, sessions, positions and timers alike."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway.client.client import Client
from tests.interop.http_api import acknowledge, body_of, call, receive
from tests.interop.node import ROOT, Node
from tests.interop.warm import headgate
from tests.patience import until

pytestmark = pytest.mark.interop
TOPIC = "orders"
CONSUMED = 20
DELAY_MS = 60_000
INVISIBLE_MS = 600_000


def run(*arguments: str) -> str:
    done = headgate(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def received(node: Node, group: str) -> list[bytes]:
    """All bodies that are left for a group."""
    bodies: list[bytes] = []
    while found := receive(node, group, TOPIC, invisible_ms=INVISIBLE_MS):
        bodies += map(body_of, found)
    return bodies


def mqtt(node: Node, name: str, clean: bool, got: queue.Queue[bytes] | None = None) -> tuple[paho.Client, bool]:
    """(a connected client, True when its session was present)."""
    ready: queue.Queue[bool] = queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, reconnect_on_failure=False)
    if got is not None:
        client.on_message = lambda _client, _data, message: got.put(bytes(message.payload))
    client.on_connect = lambda _client, _data, flags, *_: ready.put(bool(flags.session_present))
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 3_600
    client.connect("127.0.0.1", node.port("mqtt"), clean_start=clean, properties=properties)
    client.loop_start()
    return client, ready.get(timeout=20)


class Load:
    """Three senders, by HTTP, MQTT and remoting, each one message at a time."""

    def __init__(self, node: Node) -> None:
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self._over = threading.Event()
        self._mqtt, _ = mqtt(node, "sender", True)
        self._remoting = Client(f"127.0.0.1:{node.port('nameserver')}")
        senders: list[tuple[str, Callable[[bytes], object]]] = [
            ("http", lambda body: call(node, f"/v1/topics/{TOPIC}/messages", body)),
            ("mqtt", self._publish),
            ("remoting", lambda body: self._remoting.send(TOPIC, body)),
        ]
        self._threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in senders]
        for thread in self._threads:
            thread.start()

    def _publish(self, body: bytes) -> None:
        told = self._mqtt.publish(f"{TOPIC}/room", body, qos=1)
        told.wait_for_publish(5)
        if not told.is_published():
            raise OSError("not acknowledged")

    def _run(self, name: str, send: Callable[[bytes], object]) -> None:
        number = 0
        while not self._over.is_set():
            body = b"%s %06d " % (name.encode(), number) + os.urandom(700)
            self.sent.add(body)
            try:
                send(body)
            except Exception:
                return  # the node was killed
            self.acknowledged.add(body)
            number += 1

    def wait_for(self, count: int) -> None:
        """Wait until each sender has had `count` more messages acknowledged."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + count, 60)

    def end(self) -> None:
        """Stop the senders; the node may be dead."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        self._mqtt.loop_stop()
        self._remoting.close()


def test_two_backups_under_load_a_kill_and_a_restore(tmp_path: Path) -> None:
    target, small = tmp_path / "backups", tmp_path / "headgate.toml"
    small.write_text("[store]\nsegment_bytes = 262144\ncheckpoint_bytes = 262144\nindex_segment_bytes = 65536\n")
    node = Node(tmp_path / "old", "--config", str(small))
    with node:
        messages: queue.Queue[bytes] = queue.Queue()
        client, present = mqtt(node, "absent", True, messages)
        assert not present
        assert client.subscribe(f"{TOPIC}/#", 1)[0] == 0
        load = Load(node)
        load.wait_for(300)
        client.disconnect()
        client.loop_stop()
        call(node, f"/v1/topics/{TOPIC}/messages?delay_ms={DELAY_MS}", b"timer")
        taken = receive(node, "half", TOPIC, CONSUMED, invisible_ms=INVISIBLE_MS)
        assert all(each["ok"] for each in acknowledge(node, "half", TOPIC, [each["receipt"] for each in taken]))
        admin = ("--admin", f"127.0.0.1:{node.port('admin')}", "--json")
        first = json.loads(run("backup", str(target), *admin))
        load.wait_for(600)
        before = set(load.acknowledged)
        second = json.loads(run("backup", str(target), *admin))
        assert second["position"] > first["position"]
        assert second["copied_bytes"] < second["bytes"], "sealed files are those of the first backup"
        assert second["copied"] < second["files"] - 1
        assert len(load.acknowledged) > len(before), "senders went on during the backup"
        node.kill()
        load.end()
    assert "nothing is damaged" in run("check", second["backup"])
    new = Node(tmp_path / "new", "--config", str(small))
    shown = json.loads(run("restore", str(target), "--data", str(new.data), "--json"))
    assert shown["incarnation"] != second["incarnation"]
    with new:
        got = received(new, "all")
        timers = got.count(b"timer")
        bodies = {body for body in got if body != b"timer"}
        assert before <= bodies <= load.sent
        assert len(got) == len(bodies) + timers, "nothing comes twice"
        left = received(new, "half")
        done = {*map(body_of, taken)}
        assert done & set(left) == set(), "what was settled stays settled"
        assert set(left) | done >= bodies
        client, present = mqtt(new, "absent", False, messages)
        assert present
        heard: set[bytes] = set()
        while not before <= heard:
            heard.add(messages.get(timeout=30))
        client.disconnect()
        client.loop_stop()
        while not timers:
            timers += received(new, "all").count(b"timer")
        assert timers == 1
    assert "nothing is damaged" in run("check", str(new.data))


def test_a_backup_that_is_killed_leaves_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    with Node(tmp_path / "old") as node:
        load = Load(node)
        load.wait_for(100)
        before = set(load.acknowledged)
        admin = ("--admin", f"127.0.0.1:{node.port('admin')}")
        run("backup", str(target), *admin)
        (whole,) = [name for name in os.listdir(target) if name != "lock"]
        for _ in range(3):
            command = [sys.executable, "-m", "gateway", "backup", str(target), *admin]
            with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.DEVNULL) as process:
                until(lambda: any(name.endswith(".new") for name in os.listdir(target)), 60)
                process.kill()
            assert whole in os.listdir(target)
        load.wait_for(50)
        load.end()
    run("restore", str(target), "--data", str(tmp_path / "third" / "data"))
    with Node(tmp_path / "third") as third:
        assert before <= set(received(third, "all"))
