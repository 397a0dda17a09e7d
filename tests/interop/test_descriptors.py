"""Who uses up the file descriptors of a real node, in three ways, ends with the store serving: no send is refused meanwhile."""

from __future__ import annotations

import base64
import http.client
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.test_guard import figure, refusal
from tests.patience import until

pytestmark = pytest.mark.interop

LIMIT = 300
ADMIN = "root:rootpw-123"
CONFIGURATION = "durability = 'page'\n[store]\nsegment_bytes = 1048576\ncheckpoint_ms = 500\n"
"""Files are made all the time: segments, checkpoints, and marks."""
PORTS = ("nameserver", "remoting", "grpc", "http", "mqtt", "mqtts", "websocket", "websockets", "coap-tcp", "coaps-tcp")


class LimitedNode(Node):
    """A node that may open LIMIT files."""

    def spawn(self) -> None:
        """Limit it before it has looked at its limit."""
        super().spawn()
        for pid in self.pids:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


class Worker:
    """A client at one connection, whose messages are to be taken all the time. `refused`: the answers that are no 201."""

    def __init__(self, node: Node) -> None:
        self.sent = 0
        self.refused: list[object] = []
        fields = {"Authorization": "Basic " + base64.b64encode(ADMIN.encode()).decode()}
        self._connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=20)
        self._fields = fields
        self.send()

    def send(self) -> None:
        """Send one message."""
        self._connection.request("POST", "/v1/topics/t/messages", bytes(100_000), self._fields)
        answer = self._connection.getresponse()
        answer.read()
        self.sent += 1
        if answer.status != 201:
            self.refused.append(answer.status)

    def send_for(self, seconds: float) -> None:
        """Send without a pause."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.send()


def dial(node: Node, port: str, number: int) -> socket.socket | None:
    """Connect from one of many addresses; None: the node has not taken it."""
    made = socket.socket()
    made.settimeout(1)
    try:
        made.bind((f"127.0.{1 + number % 200}.{1 + number // 200 % 200}", 0))
        made.connect(("127.0.0.1", node.port(port)))
    except OSError:
        made.close()
        return None
    return made


def introduced(made: socket.socket, number: int) -> None:
    """Send an MQTT CONNECT of the Super user."""
    name, password = (each.encode() for each in ADMIN.split(":"))
    parts = [b"MQTT", b"\x04\xc2\x00\x00", b"i%d" % number, name, password]
    body = b"".join(each if at == 1 else struct.pack(">H", len(each)) + each for at, each in enumerate(parts))
    made.sendall(bytes([0x10, len(body)]) + body)


@contextmanager
def started(tmp_path: Path, *options: str) -> Iterator[tuple[Node, Worker]]:
    """A node, and a worker that sends to it. Afterwards the store serves, and has never been without a descriptor."""
    file = tmp_path / "headgate.toml"
    file.write_text(CONFIGURATION)
    with LimitedNode(tmp_path / "node", "--config", str(file), *options) as node:
        yield node, Worker(node)
        until(lambda: '"ready": true' in node.admin("/readyz"), 10)
        said = node.text()
        assert "store stopped" not in said, said[-3000:]
        assert "store full" not in said, said[-3000:]
        until(lambda: sends(node), 15)


def sends(node: Node) -> bool:
    """Whether a new client can send."""
    try:
        return not Worker(node).refused
    except (OSError, http.client.HTTPException):
        return False


@contextmanager
def beside(work: Callable[[Callable[[], bool]], None]) -> Iterator[None]:
    """Run `work` in a thread, until what it is given says that it is to end."""
    ends = threading.Event()
    thread = threading.Thread(target=work, args=(ends.is_set,))
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_a_node_says_at_the_start_how_many_connections_it_takes_when_these_are_fewer_than_the_setting(tmp_path: Path) -> None:
    with started(tmp_path) as (node, _):
        (line,) = [line for line in node.text().splitlines() if "connections_max is 100000" in line]
        assert f"may open {LIMIT} files" in line
        assert "LimitNOFILE" in line
        assert figure(node, "headgate_connections_max") == LIMIT // 5


def test_idle_connections_of_a_user_leave_the_store_its_descriptors(tmp_path: Path) -> None:
    with started(tmp_path, "--admin", ADMIN) as (node, worker):
        held: list[socket.socket] = []
        for number in range(2 * LIMIT):
            made = dial(node, "mqtt", number)
            if made is not None:
                held.append(made)
                try:
                    introduced(made, number)
                    made.recv(4)  # logged in, or refused
                except OSError:
                    continue
        assert figure(node, 'headgate_connections_open{protocol="mqtt"}') > LIMIT // 6
        worker.send_for(2)
        assert worker.refused == [], node.text()[-3000:]
        assert worker.sent > 20, "two segments at least"
        assert figure(node, refusal("mqtt", "connections-max")) > 0
        for each in held:
            each.close()


def test_connections_at_the_admin_port_besides_leave_the_store_its_descriptors(tmp_path: Path) -> None:
    """Of a process that may open few files, few are for them."""
    with started(tmp_path) as (node, worker):
        held = [made for number in range(LIMIT) if (made := dial(node, "mqtt", number)) is not None]
        for host in ("127.0.0.4", "127.0.0.5"):
            for _ in range(64):
                made = socket.socket()
                made.bind((host, 0))
                made.settimeout(2)
                made.connect(("127.0.0.1", node.port("admin")))
                held.append(made)
        worker.send_for(3)
        assert worker.refused == [], node.text()[-3000:]
        assert worker.sent > 20, "two segments at least"
        for each in held:
            each.close()


def test_silent_connections_without_credentials_leave_the_store_its_descriptors(tmp_path: Path) -> None:
    with started(tmp_path, "--admin", ADMIN) as (node, worker):

        def flood(ends: Callable[[], bool]) -> None:
            held: list[socket.socket] = []
            number = 0
            while not ends():
                number += 1
                made = dial(node, "mqtt", number)
                if made is not None:
                    held.append(made)
                if len(held) > 2 * LIMIT:
                    held.pop(0).close()
            for each in held:
                each.close()

        with beside(flood):
            worker.send_for(3)
        assert worker.refused == [], node.text()[-3000:]
        assert figure(node, refusal("mqtt", "unauthenticated-connections")) > 0


def test_bursts_of_connections_at_all_ports_leave_the_store_its_descriptors(tmp_path: Path) -> None:
    """What is accepted in one turn of the loop takes descriptors before it is refused."""
    with started(tmp_path) as (node, worker):

        def burst(ends: Callable[[], bool]) -> None:
            number = 0
            while not ends():
                held: list[socket.socket] = []
                for _ in range(LIMIT):
                    number += 1
                    made = socket.socket()
                    made.setblocking(False)
                    made.bind((f"127.0.{1 + number % 200}.{1 + number // 200 % 200}", 0))
                    made.connect_ex(("127.0.0.1", node.port(PORTS[number % len(PORTS)])))
                    held.append(made)
                time.sleep(0.1)
                for each in held:
                    each.close()

        with beside(burst):
            worker.send_for(3)
        assert worker.refused == [], node.text()[-3000:]


def test_a_node_that_has_no_descriptor_left_costs_no_processor_and_accepts_again(tmp_path: Path) -> None:
    """The limit is lowered to what is open. The loop asks for each connection that waits again and again: it has to rest."""
    with started(tmp_path) as (node, worker):
        highest = max(int(each.name) for each in Path(f"/proc/{node.pid}/fd").iterdir())
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (highest + 1, LIMIT))
        held = [made for number in range(LIMIT) if (made := dial(node, "mqtt", number)) is not None]
        time.sleep(1.5)  # the longest time in which nobody has noticed
        before = _processor_s(node.pid)
        time.sleep(1)
        assert _processor_s(node.pid) - before < 0.3
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        for each in held:
            each.close()
        until(lambda: sends(node), 15)
        made = dial(node, "mqtt", 1)
        assert made is not None
        introduced(made, 1)
        assert made.recv(4)[:1] == b"\x20", "the port that had none is not deaf"
        made.close()
        worker.send()
        assert worker.refused == [], node.text()[-3000:]


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
