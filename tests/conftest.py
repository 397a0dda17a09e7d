"""Markers, the order of tests for several workers, and the last line of a run: how many tests with foreign clients ran."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from gateway.runtime.compiled import activate

TESTS = Path(__file__).parent
INTEROP = TESTS / "interop"
WAITING = ("interop", "scenarios", "examples", "soak")
"""Folders whose tests mostly wait for other processes. Several workers run them first, and tests that compute later."""
LONGEST = (
    "interop/rocketmq/test_sdks.py", "interop/spark/test_truth.py", "interop/spark/test_exactly_once.py",
    "scenarios/test_one_group.py", "examples/test_examples.py", "interop/remoting/test_apache_suite.py",
    "interop/test_java_scenes.py", "interop/remoting/test_apache_proxy.py", "interop/grpc/test_corners.py",
    "interop/test_kill.py", "interop/test_lite.py", "interop/grpc/test_transaction.py", "interop/grpc/test_rust.py",
    "interop/grpc/test_rust_features.py", "interop/remoting/test_java4.py", "interop/test_expelled.py",
    "interop/grpc/test_inquiry.py", "interop/test_backup.py", "interop/test_model.py", "interop/remoting/test_java.py",
    "interop/test_access.py", "interop/grpc/test_stub.py", "soak/test_kills.py", "gateway/connectors/spark/test_bundle.py",
    "gateway/connectors/spark/test_session.py",
)  # fmt: skip
"""Files that take a minute or more. They are started early: started last, they would run alone at the end."""
SHARED = "tests/interop/rocketmq/"
"""Tests that share one cluster of Apache's servers, which takes all of a machine to start: one worker's, like a file."""
RUNNING = activate()
"""The compiled modules in use; selected before any module under test is imported."""

# Tests have no deadline: a busy machine must not make them fail.
settings.register_profile("headgate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headgate")

_ran: set[str] = set()
_skipped: dict[str, str] = {}


def pytest_report_header() -> str:
    """Print which modules are compiled."""
    return f"headgate: {RUNNING}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests under tests/interop as interop tests. Sort the files for workers, the longest first."""
    for item in items:
        if INTEROP in item.path.parents:
            item.add_marker(pytest.mark.interop)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_turn)


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # a class without types
    """A file is one worker's, and so is the folder `SHARED`."""

    def _split_scope(self, nodeid: str) -> str:
        return SHARED if nodeid.startswith(SHARED) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Share the tests out by files (--dist loadfile) with one exception."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def _turn(item: pytest.Item) -> tuple[int, int]:
    path = item.path.relative_to(TESTS)
    place = LONGEST.index(str(path)) if str(path) in LONGEST else len(LONGEST)
    return path.parts[0] not in WAITING, place


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the interop tests that ran and those that were skipped."""
    if "interop" not in report.keywords:
        return
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skipped[report.nodeid] = reason.removeprefix("Skipped: ")
    elif report.when == "call":
        _ran.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Print the last line of a run. Workers do not print it."""
    if (_ran or _skipped) and "PYTEST_XDIST_WORKER" not in os.environ:
        counts = sorted(Counter(_skipped.values()).items())
        why = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in counts)
        print(f"interop: {len(_ran)} ran, {len(_skipped)} skipped: {why or 'none'}", flush=True)
