"""The admin port while a node starts or follows: a thread answers, and then the loop of the node takes over the socket."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.connection.intake import PumpIntake
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.admin import server
from gateway.runtime.admin.server import AdminServer, started
from gateway.runtime.admin.view import AdminView, Controls, Guard
from gateway.runtime.clock import LoopClock
from protocols.hosts import Hosts
from tests.gateway.runtime.admin.test_application import Users
from tests.interop.node import ROOT

NAMES = Hosts((), "")


class Loop:
    """The loop of a node, in a thread of its own, and the admin port of its process."""

    def __init__(self, bound: socket.socket) -> None:
        self.port = bound.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.admin = AdminServer(bound)

    def wait(self, view: AdminView) -> None:
        """Answer for a node that does not serve."""

        async def waited() -> None:
            self.admin.wait(view)

        self.run(waited())

    def serve(self, view: AdminView) -> None:
        """Answer for a node that serves."""
        clock = LoopClock(self.loop)
        self.run(self.admin.serve(view, clock, PumpIntake(clock, lambda: 0)))

    def run(self, coroutine: Any) -> None:
        """Run a coroutine in the loop."""
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def ask(self, path: str, user: str = "", host: str = "", method: str = "GET") -> tuple[int, str, Any]:
        """(status, text, fields) of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        fields = {"Authorization": "Basic " + base64.b64encode(f"{user}:p".encode()).decode()} if user else {}
        connection.request(method, path, headers={**fields, **({"Host": host} if host else {})})
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.headers
        connection.close()
        return found

    def document(self, path: str) -> tuple[int, dict[str, Any]]:
        """(status, document)."""
        status, text, _ = self.ask(path)
        return status, json.loads(text)


@contextmanager
def node() -> Iterator[Loop]:
    found = Loop(socket.create_server(("127.0.0.1", 0)))
    try:
        yield found
    finally:
        found.run(found.admin.close())
        found.loop.call_soon_threadsafe(found.loop.stop)
        found.thread.join()
        found.loop.close()


def test_progress_is_reported_from_the_first_moment() -> None:
    health = Health(time.monotonic_ns)
    with node() as found:
        found.wait(AdminView(health, NAMES))
        status, document = found.document("/healthz")
        assert (status, document["status"]) == (200, "starting")
        health.heard(StoreEvent(StoreEventKind.RECOVERING, "", "64 of 512 MiB of the log read"))
        assert found.document("/healthz")[1]["progress"] == "64 of 512 MiB of the log read"
        status, document = found.document("/readyz")
        assert (status, document["ready"]) == (503, False)
        assert "64 of 512 MiB" in document["reasons"][0]
        for method, path in (("GET", "/metrics"), ("POST", "/v1/admin/reload"), ("GET", "/nothing")):
            status, text, fields = found.ask(path, method=method)
            assert (status, fields["Retry-After"]) == (503, "1")
            assert "64 of 512 MiB" in json.loads(text)["reasons"][0]


def test_a_loop_that_is_busy_delays_neither_health_nor_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOP_S", 0.05)
    health, free = Health(time.monotonic_ns), threading.Event()
    health.standby = "this replica follows replica 2"
    with node() as found:
        found.wait(AdminView(health, NAMES, tuple, Snapshot))
        found.loop.call_soon_threadsafe(free.wait, 30)
        assert found.document("/healthz")[1]["status"] == "following"
        assert found.document("/readyz")[1]["reasons"] == ["this replica follows replica 2"]
        assert found.ask("/metrics")[:2] == (503, "the node is busy: it reads its log\n")
        free.set()


def test_connections_go_over_to_the_loop_that_serves_and_back() -> None:
    starting, serving = Health(time.monotonic_ns), Health(time.monotonic_ns)
    serving.phase = SERVING
    reloads: list[threading.Thread] = []
    controls = Controls(list, lambda: reloads.append(threading.current_thread()))
    with node() as found:
        found.wait(AdminView(starting, NAMES))
        with socket.create_connection(("127.0.0.1", found.port)):  # says nothing, and is not waited for
            found.serve(AdminView(serving, NAMES, tuple, Snapshot, controls))
            while found.ask("/v1/admin/reload", method="POST")[0] == 503:
                pass  # the thread has accepted one more
        assert found.document("/healthz")[1]["status"] == SERVING
        assert reloads == [found.thread]
        serving.phase = STOPPING
        found.run(found.admin.leave(AdminView(serving, NAMES)))
        assert found.document("/readyz")[1]["reasons"] == ["the node stops"]
        found.wait(AdminView(starting, NAMES))
        assert found.document("/healthz")[1]["status"] == "starting"


def test_a_disk_that_hangs_is_a_reason_until_it_goes_on() -> None:
    health = Health(lambda: 0)
    health.phase = SERVING
    for kind in (StoreEventKind.FULL, StoreEventKind.STALLED, StoreEventKind.RESUMED):
        health.heard(StoreEvent(kind, "", "why"))
    assert health.readiness() == {"ready": False, "reasons": ["why"]}, "each has an end of its own"
    health.heard(StoreEvent(StoreEventKind.MOVING, "", "it goes on"))
    assert health.readiness()["ready"]


@pytest.mark.parametrize("kind", [StoreEventKind.STOPPED, StoreEventKind.FULL])
def test_a_store_that_takes_no_writes_is_a_reason(kind: StoreEventKind) -> None:
    health = Health(time.monotonic_ns)
    health.phase = SERVING
    assert health.readiness() == {"ready": True, "reasons": []}
    health.heard(StoreEvent(kind, "log/0", "no space left", "delete something"))
    assert health.readiness() == {"ready": False, "reasons": ["log/0: no space left: delete something"]}
    health.heard(StoreEvent(StoreEventKind.RESUMED, "", "there is room"))
    assert health.readiness()["ready"] is (kind is StoreEventKind.FULL)
    health.phase = STOPPING
    assert "the node stops" in health.reasons()


def test_a_replica_that_follows_has_metrics_of_its_loop() -> None:
    asked: list[threading.Thread] = []

    def snapshot() -> Snapshot:
        asked.append(threading.current_thread())
        return Snapshot(counters={"replica_lag_bytes": 12})

    health = Health(time.monotonic_ns)
    with node() as found:
        found.wait(AdminView(health, NAMES, lambda: [Users()], snapshot))
        assert found.ask("/metrics", "root")[0] == 503
        assert not asked, "its log is not open yet"
        health.standby = "this replica follows replica 2"
        status, text, fields = found.ask("/metrics")
        assert (status, text, fields["WWW-Authenticate"]) == (401, "who are you?\n", 'Basic realm="headgate"')
        status, text, _ = found.ask("/metrics", "guest")
        assert status == 200
        assert "headgate_replica_lag_bytes 12.0" in text
        assert "process_resident_memory_bytes" in text
        assert asked == [found.thread]
        assert found.ask("/v1/admin/loaded", "root")[0] == 503


def users(*watchers: str) -> Users:
    found = Users()
    found.watchers = watchers
    return found


class Nobody(Users):
    """Access control of a log without users."""

    def authenticate(self, credentials: Any, host: str, certified: str = "") -> Any:
        """A refusal."""
        return super().authenticate(None, host)


@pytest.mark.parametrize(
    ("guards", "user", "host", "status"),
    [
        ([users("guest"), Nobody()], "", "", 401),
        ([users("guest"), Nobody()], "stranger", "", 401),
        ([users("guest"), Nobody()], "guest", "", 200),
        ([Nobody(), users("root")], "root", "", 200),
        ([Nobody(), users("root")], "guest", "", 403),
        ([users("root"), Nobody()], "guest", "", 403),
        ([], "", "", 200),
        ([], "", "localhost:8088", 200),
        ([], "", "evil.example", 421),
    ],
)
def test_users_of_the_log_and_of_the_replica_may_read_the_metrics_with_the_right_for_it(
    guards: list[Guard], user: str, host: str, status: int
) -> None:
    health = Health(time.monotonic_ns)
    health.standby = "this replica follows replica 2"
    with node() as found:
        found.wait(AdminView(health, NAMES, lambda: guards, Snapshot))
        assert found.ask("/metrics", user, host)[0] == status


def test_a_process_answers_before_it_has_a_node() -> None:
    admin = started(("127.0.0.1", 0))
    assert admin is not None
    port = admin.bound.getsockname()[1]
    found = []
    for path in ("/healthz", "/readyz", "/metrics"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        found.append(connection.getresponse().status)
        connection.close()
    assert found == [200, 503, 503]
    assert started(("127.0.0.1", port)) is None, "the node reports that the port is taken"
    assert started(None) is None
    asyncio.run(admin.close())


def test_the_admin_port_needs_few_modules_before_it_answers() -> None:
    program = "import sys, gateway.runtime.admin.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    own = {name for name in done.stdout.split() if name.startswith(("gateway.", "store.", "protocols.", "controller."))}
    assert not {name for name in own if name.startswith(("gateway.node", "gateway.usecase", "gateway.access", "store."))}
    assert len(own) < 40
