"""mosquitto as a bridge to a real server: it connects with its own defaults, and carries messages in both directions."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.mqtt.test_mqtt import Phone
from tests.interop.node import Node
from tests.patience import until

BROKER = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
pytestmark = [pytest.mark.interop, pytest.mark.skipif(BROKER is None, reason="mosquitto, the broker, is not installed")]
names = itertools.count()


class Bridged:
    """The side of mosquitto, for `Phone`."""

    def __init__(self, port: int) -> None:
        self._port = port

    def port(self, name: str) -> int:
        return self._port


@contextmanager
def bridge(node: Node, folder: Path, name: str, lines: str) -> Iterator[tuple[Bridged, Path]]:
    """A mosquitto with one bridge to `node`, and its log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "log"
    (folder / "conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type all\nlog_dest stderr\n"
        f"connection {name}\naddress 127.0.0.1:{node.port('mqtt')}\nrestart_timeout 1\n{lines}\n"
    )
    with log.open("wb") as said:
        process = subprocess.Popen([BROKER or "", "-c", str(folder / "conf")], stdout=said, stderr=said)
    try:
        until(lambda: "Connecting bridge" in log.read_text(errors="replace") and listens(port), 15, log.read_text)
        yield Bridged(port), log
    finally:
        process.terminate()
        process.wait(10)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    "lines",
    ["", "try_private false", "notifications false", "bridge_protocol_version mqttv50", "bridge_protocol_version mqttv31"],
)  # fmt: skip
def test_a_bridge_connects_as_it_comes_and_carries_both_ways(node: Node, tmp_path: Path, lines: str) -> None:
    """[MQTT-3.1.2-2] of 3.1.1: level 3 or 4 with the bit of a bridge; 4.7.2: its state below `$SYS` ends no connection."""
    name = f"bridge{next(names)}"
    topics = f"topic {name}/out/# out 1\ntopic {name}/in/# in 1\n{lines}"
    with bridge(node, tmp_path, name, topics) as (there, log):
        here = Phone(node, f"here{name}").start().subscribe(f"{name}/out/#", 1)
        beyond = Phone(there, f"there{name}").start().subscribe(f"{name}/in/#", 1)  # type: ignore[arg-type]
        for number in range(5):
            here.client.publish(f"{name}/in/x", str(number), 1).wait_for_publish(10)
            beyond.client.publish(f"{name}/out/x", str(number), 1).wait_for_publish(10)
        until(lambda: len(here.received) >= 5 and len(beyond.received) >= 5, 30)
        assert here.bodies() == beyond.bodies() == [str(number) for number in range(5)]
        here.stop()
        beyond.stop()
        assert log.read_text(errors="replace").count("Connecting bridge (step 1)") == 1


def test_what_a_bridge_carries_both_ways_does_not_come_back(node: Node, tmp_path: Path) -> None:
    """A bridge below 5.0 cannot ask for No Local, and has no other way to keep a message from going round."""
    name = f"bridge{next(names)}"
    with bridge(node, tmp_path, name, f"topic {name}/# both 1") as (there, _):
        here = Phone(node, f"here{name}").start().subscribe(f"{name}/#", 1)
        beyond = Phone(there, f"there{name}").start().subscribe(f"{name}/#", 1)  # type: ignore[arg-type]
        here.client.publish(f"{name}/a", "from here", 1, retain=True).wait_for_publish(10)
        beyond.client.publish(f"{name}/b", "from there", 1).wait_for_publish(10)
        until(lambda: len(here.received) >= 2 and len(beyond.received) >= 2, 30)
        here.client.publish(f"{name}/c", "last", 1).wait_for_publish(10)
        until(lambda: "last" in beyond.bodies(), 30)
        assert sorted(here.bodies()) == ["from here", "from there", "last"]
        assert sorted(beyond.bodies()) == ["from here", "from there", "last"]
        late = Phone(there, f"late{name}").start().subscribe(f"{name}/a", 1)  # type: ignore[arg-type]
        until(lambda: len(late.received) == 1, 15)
        assert late.received[0].retain, "what is retained here is retained there"
        for phone in (here, beyond, late):
            phone.stop()


def test_the_state_of_a_bridge_is_at_its_topic(node: Node, tmp_path: Path) -> None:
    name = f"bridge{next(names)}"
    watcher = Phone(node, f"watch{name}").start().subscribe("$SYS/broker/connection/#", 1)

    def states() -> list[bytes]:
        return [message.payload for message in watcher.received if message.topic.endswith(f".{name}/state")]

    with bridge(node, tmp_path, name, f"topic {name}/# out 1"):
        until(lambda: b"1" in states(), 30)
    until(lambda: states()[-1:] == [b"0"], 30)
    watcher.stop()
