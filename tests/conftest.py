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
LANES = {
    "Apache": ("tests/interop/rocketmq/",),
    "Spark": ("tests/interop/spark/", "tests/gateway/connectors/spark/", "tests/scenarios/", "tests/examples/"),
    "Java": (
        "tests/interop/remoting/", "tests/interop/test_java_scenes.py", "tests/interop/test_access.py",
        "tests/interop/test_expelled.py", "tests/interop/test_lite.py", "tests/interop/test_mixed_group.py",
        "tests/interop/test_namespaces.py", "tests/interop/test_tls_only.py", "tests/interop/grpc/test_apache_suite.py",
        "tests/interop/grpc/test_inquiry.py",
    ),
    "tidy": ("tests/tidy/",),
}  # fmt: skip
"""Files and folders that start JVMs, as lanes. A lane is one worker's, and is started first.

So that at most a JVM or two for each lane starts at a time: their clients give up after three seconds, and many that start
together take all of a machine for longer. The tests of the first lane share one cluster of Apache's servers; those of the last
one start nothing, and share what they have parsed: all sources.
"""
LONGEST = (
    "interop/grpc/test_corners.py",
    "interop/test_kill.py",
    "interop/grpc/test_rust.py",
    "interop/test_backup.py",
    "interop/test_model.py",
    "interop/grpc/test_stub.py",
    "soak/test_kills.py",
)
"""Other files that take a minute or more. They are started early: started last, they would run alone at the end."""
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
    """A file is one worker's, and so is a lane."""

    def _split_scope(self, nodeid: str) -> str:
        return _lane(nodeid) or str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Share the tests out by files and lanes (--dist loadfile)."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def _lane(name: str) -> str | None:
    """The lane that a test is in. `name`: its node id."""
    return next((lane for lane, places in LANES.items() if name.startswith(places)), None)


def _turn(item: pytest.Item) -> tuple[bool, bool, int]:
    path = item.path.relative_to(TESTS)
    place = LONGEST.index(str(path)) if str(path) in LONGEST else len(LONGEST)
    return _lane(item.nodeid) is None, path.parts[0] not in WAITING, place


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
