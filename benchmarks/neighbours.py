"""How long neighbours wait for their answers while one peer misbehaves, and how much memory that peer costs.

    python -m benchmarks.neighbours                     every attack, 3 s each
    python -m benchmarks.neighbours HTTP --seconds 10   the attacks whose name contains "HTTP"

A node runs; one process attacks it (`benchmarks.attackers`); another one asks on every protocol for a small answer, again and
again, and measures the time. Growth is the peak of the node's anonymous memory during the attack over what it had before.
A row above 50 ms or 64 MiB is printed as lost.

What is not the node's doing is kept out. The node has a processor of its own, and the others share the rest, the neighbours
before the attacker. The node's data is in memory where the machine has /dev/shm, since an fdatasync of a shared disk can take
longer than the rule allows. "no CPU" is the share of the time in which the node was ready to run and did not: on a machine
that does something else too, read the times with it in mind.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import platform
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

from benchmarks.attackers import ATTACKS, GET_BROKER_CLUSTER_INFO, SOURCE, attack
from benchmarks.process import Process
from benchmarks.servers import ROOT, Server, headgate
from protocols.coap.message import message as coap
from protocols.coap.message import option
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Ping, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.remoting.wire.frame import encode as remoting
from protocols.remoting.wire.header import JSON

FORK = multiprocessing.get_context("fork")
WAIT_MS_MAX = 50.0
GROWTH_MIB_MAX = 64.0
PAUSE_S = 0.005
"""Pause of a neighbour between an answer and its next question."""
ANSWER_S = 10.0
"""A neighbour that waits longer gives up; its wait counts."""
HEAD = "| Attack | Asked | p50 ms | p99 ms | Longest ms | Of whom | Growth MiB | No CPU | |\n|" + "---|" * 9


def _dial(port: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(socket.AF_INET, kind)
    made.settimeout(ANSWER_S)
    made.connect(("127.0.0.1", port))
    return made


def _plain(question: bytes, first: bytes = b"") -> Callable[[int], Callable[[], None]]:
    """A neighbour whose question and answer are one segment each."""

    def connect(port: int) -> Callable[[], None]:
        peer = _dial(port)
        if first:
            peer.sendall(first)
            peer.recv(65_536)

        def ask() -> None:
            peer.sendall(question)
            if not peer.recv(65_536):
                raise ConnectionResetError

        return ask

    return connect


def _coap(port: int) -> Callable[[], None]:
    peer = _dial(port, socket.SOCK_DGRAM)
    path = coap.join([(option.URI_PATH, b".well-known"), (option.URI_PATH, b"core")])
    number = 0

    def ask() -> None:
        nonlocal number
        number += 1
        question = coap.encode(coap.CON, coap.GET, number & 0xFFFF, number.to_bytes(3, "big"), path, b"")
        for attempt in range(4):  # RFC 7252, 4.2: sent again after 2 s, 4 s, ...
            peer.send(question)
            peer.settimeout(2.0 * 2**attempt)
            with contextlib.suppress(TimeoutError):
                peer.recv(65_536)
                return
        raise TimeoutError

    return ask


def _grpc(port: int) -> Callable[[], None]:
    peer = _dial(port)
    http = H2Connection(H2Configuration(client_side=True))
    http.initiate_connection()
    http.increment_flow_control_window(1 << 30)
    request = pb.QueryRouteRequest()
    request.topic.name = "neighbour"
    payload = request.SerializeToString()
    fields = [
        (":path", "/apache.rocketmq.v2.MessagingService/QueryRoute"), (":method", "POST"), (":scheme", "http"),
        (":authority", "n"), ("content-type", "application/grpc"), ("te", "trailers"), ("x-mq-client-id", "n"),
    ]  # fmt: skip

    def ask() -> None:
        stream_id = http.get_next_available_stream_id()
        http.send_headers(stream_id, fields)
        http.send_data(stream_id, b"\0" + len(payload).to_bytes(4, "big") + payload, end_stream=True)
        while True:
            peer.sendall(http.data_to_send())
            data = peer.recv(65_536)
            if not data:
                raise ConnectionResetError
            if any(isinstance(event, StreamEnded) for event in http.receive_data(data)):
                return

    return ask


def _admin(port: int) -> Callable[[], None]:
    def ask() -> None:
        with _dial(port) as peer:  # the admin port answers one request for each connection
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if not peer.recv(65_536):
                raise ConnectionResetError

    return ask


def _mqtt(name: str) -> bytes:
    return encode(Connect(4, name, True, 0, None, None, None, NONE), 4)


NEIGHBOURS: dict[str, tuple[str, Callable[[int], Callable[[], None]]]] = {
    "remoting": ("remoting", _plain(remoting(GET_BROKER_CLUSTER_INFO, 7, serialize=JSON))),
    "gRPC": ("grpc", _grpc),
    "MQTT": ("mqtt", _plain(encode(Ping(12), 4), _mqtt("neighbour"))),
    "MQTT, stored": ("mqtt", _plain(encode(Publish(b"neighbour/a", b"x", 1, False, False, 1, NONE), 4), _mqtt("sender"))),
    "CoAP": ("coap", _coap),
    "HTTP": ("http", _plain(b"GET /v1/topics/neighbour HTTP/1.1\r\nHost: n\r\n\r\n")),
    "admin": ("admin", _admin),
}
"""Name -> port, and what connects and returns the function that asks once."""


def ask_all(ports: dict[str, int], seconds: float, results: Connection) -> None:
    """Ask on every protocol for some seconds; send True when that begins, then the waits in ms by neighbour."""
    waits: dict[str, list[float]] = {name: [] for name in NEIGHBOURS}
    ready = {name: connect(ports[port]) for name, (port, connect) in NEIGHBOURS.items()}
    for ask in ready.values():
        ask()
    results.send(True)
    end = time.monotonic() + seconds

    def work(name: str, ask: Callable[[], None]) -> None:
        while time.monotonic() < end:
            began = time.perf_counter()
            try:
                ask()
            except OSError:
                waits[name].append(ANSWER_S * 1e3)
                return
            waits[name].append((time.perf_counter() - began) * 1e3)
            time.sleep(PAUSE_S)

    threads = [threading.Thread(target=work, args=each) for each in ready.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send(waits)


def _attack_politely(name: str, port: int, seconds: float) -> None:
    """Attack, but let the neighbours run first: they share a processor, and their waiting for it is not the node's."""
    os.nice(10)
    attack(name, port, seconds)


def _no_cpu_s(process: Process) -> float:
    """Seconds in which the node was ready to run and did not run."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9


def row(name: str, server: Server, seconds: float) -> str:
    """Let one attack happen; "nothing" is none. Returns a row of the table."""
    node = server.processes[0]
    before = peak = node.anonymous_mb()
    results, sends = FORK.Pipe(duplex=False)
    asker = FORK.Process(target=ask_all, args=(server.ports, seconds + 0.5, sends), daemon=True)
    asker.start()
    sends.close()
    results.recv()
    waited, began = _no_cpu_s(node), time.monotonic()
    attacker = None
    if name in ATTACKS:
        attacker = FORK.Process(target=_attack_politely, args=(name, server.ports[ATTACKS[name].port], seconds), daemon=True)
        attacker.start()
    while not results.poll(0.05):
        peak = max(peak, node.anonymous_mb())
    idle = (_no_cpu_s(node) - waited) / (time.monotonic() - began)
    waits: dict[str, list[float]] = results.recv()
    asker.join()
    if attacker is not None:
        attacker.join()
    every = sorted(wait for each in waits.values() for wait in each)
    longest, whom = max((max(each), neighbour) for neighbour, each in waits.items())
    lost = longest > WAIT_MS_MAX or peak - before > GROWTH_MIB_MAX
    median, late = every[len(every) // 2], every[len(every) * 99 // 100]
    return (
        f"| {name} | {len(every):,} | {median:.1f} | {late:.1f} | {longest:.1f} | {whom} |"
        f" {peak - before:.0f} | {idle:.0%} | {'**lost**' if lost else ''} |"
    )


def preface(seconds: float) -> str:
    """What a reader has to know about the table: command, date, commit and load."""
    commit = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    date = time.strftime("%d %B %Y %H:%M UTC", time.gmtime())
    return (
        f"`python -m benchmarks.neighbours --seconds {seconds:g}`, {date}, commit "
        f"{commit.strip()}, Python {platform.python_version()},\n{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} "
        f"before the first attack; attacks come from {SOURCE}, one at a time, against one node."
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="", help="a part of the attacks' names")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of an attack")
    given = parser.parse_args()
    print(preface(given.seconds) + "\n\n" + HEAD, flush=True)
    processors = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="neighbours-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        os.sched_setaffinity(0, processors[:1])  # inherited by the node
        server = headgate(Path(folder), "flushed")
        os.sched_setaffinity(0, processors[1:] or processors)
        try:
            for name in ("nothing", *[name for name in ATTACKS if given.part in name]):
                print(row(name, server, given.seconds), flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
