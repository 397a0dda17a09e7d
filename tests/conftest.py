"""Markers, and the line that says how many tests with foreign clients ran, and why the others did not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gateway.runtime.compiled import activate

INTEROP = Path(__file__).parent / "interop"
RUNNING = activate()
"""What runs as machine code; decided before any module under test is imported."""

# A busy machine is no fault of the code: nothing here is judged by how long it took.
settings.register_profile("headgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headgate")

_ran: set[str] = set()
_skipped: dict[str, str] = {}


def pytest_report_header() -> str:
    """Say what is compiled."""
    return f"headgate: {RUNNING}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever lies under tests/interop is an interop test."""
    for item in items:
        if INTEROP in item.path.parents:
            item.add_marker(pytest.mark.interop)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count interop tests by whether they ran."""
    if "interop" not in report.keywords:
        return
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped[report.nodeid] = reason.removeprefix("Skipped: ")
    elif report.when == "call":
        _ran.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """The last line of a run."""
    if _ran or _skipped:
        counts = sorted(Counter(_skipped.values()).items())
        why = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in counts)
        print(f"interop: {len(_ran)} ran, {len(_skipped)} skipped: {why or 'none'}", flush=True)
