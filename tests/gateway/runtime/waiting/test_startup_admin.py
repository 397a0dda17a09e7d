"""The admin port during the start: a thread answers, and then the server takes over the socket."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from typing import Any

import pytest

from domain.store_event import StoreEvent, StoreEventKind
from gateway.observe.health import SERVING, STOPPING, Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.waiting import standby_page
from gateway.runtime.waiting.standby_page import Question, Refusal, StandbyPage
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
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asked: list[Question] = []

    def ask(question: Question) -> Snapshot | Refusal:
        assert threading.current_thread() is thread
        asked.append(question)
        return Snapshot(counters={"replica_lag_bytes": 12}) if question.authorization else Refusal(401, "who are you?")

    def got(**fields: str) -> tuple[int, str, str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/metrics", headers=fields)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("WWW-Authenticate")

    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        health = Health(time.monotonic_ns)
        starting = StartupAdmin(bound, health, StandbyPage(ask, loop))
        assert got()[0] == 503
        assert not asked, "its log is not open yet"
        health.standby = "this replica follows replica 2"
        assert got() == (401, "who are you?\n", 'Basic realm="headgate"')
        status, text, _ = got(Authorization="Basic eA==")
        assert status == 200
        assert "headgate_replica_lag_bytes 12.0" in text
        assert "process_resident_memory_bytes" in text
        assert asked[-1] == Question("Basic eA==", "127.0.0.1", f"127.0.0.1:{port}")
        assert get(port, "/healthz")[1]["status"] == "following"
        assert get(port, "/readyz")[1]["reasons"] == ["this replica follows replica 2"]
        starting.stop()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_loop_that_has_no_time_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_page, "LOOP_S", 0.05)
    loop = asyncio.new_event_loop()
    status, _, body = StandbyPage(lambda _question: Snapshot(), loop).read(Question("", "", ""))
    loop.close()
    assert (status, body) == (503, b"the node is busy: it reads its log\n")
