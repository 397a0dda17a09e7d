"""How long this thread was busy."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.runtime import machine


@pytest.mark.parametrize("counted", [True, False])
def test_work_counts_and_sleep_does_not(counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not counted:
        monkeypatch.setattr(machine, "SCHEDSTAT", Path("/nowhere/schedstat"))
    before = sum(machine.processor_ns())
    end = time.thread_time_ns() + 50_000_000
    while time.thread_time_ns() < end:
        pass
    worked = sum(machine.processor_ns())
    assert worked - before >= 40_000_000
    time.sleep(0.5)
    assert sum(machine.processor_ns()) - worked < 400_000_000


def test_waiting_for_a_processor_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "schedstat"
    file.write_text("1000 234 5\n")
    monkeypatch.setattr(machine, "SCHEDSTAT", file)
    assert machine.processor_ns() == (1_000, 234)
    file.write_text("no figures\n")
    ran, waited = machine.processor_ns()
    assert waited == 0
    assert abs(ran - time.thread_time_ns()) < 1_000_000_000
