"""The admin port during the start: a thread answers, and then the server takes over the socket."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any

import pytest

from domain.store_event import StoreEvent, StoreEventKind
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.runtime.waiting.startup_admin import StartupAdmin


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_progress_is_told_from_the_first_moment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        health = Health(time.monotonic_ns)
        starting = StartupAdmin(bound, health)
        status, document = get(port, "/healthz")
        assert (status, document["status"]) == (200, "starting")
        health.heard(StoreEvent(StoreEventKind.RECOVERING, "", "64 of 512 MiB of the log read"))
        assert get(port, "/healthz")[1]["progress"] == "64 of 512 MiB of the log read"
        status, document = get(port, "/readyz")
        assert (status, document["ready"]) == (503, False)
        assert "64 of 512 MiB" in document["reasons"][0]
        assert get(port, "/metrics")[0] == 503
        starting.stop()
        waiting = socket.create_connection(("127.0.0.1", port), 10)
        taken, _ = bound.accept()
        taken.close()
        waiting.close()


def test_who_says_nothing_is_not_waited_for_at_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        starting = StartupAdmin(bound, Health(time.monotonic_ns))
        with socket.create_connection(bound.getsockname(), 10):
            starting.stop()


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
