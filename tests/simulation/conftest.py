"""Adds the seed, the last events and the command that repeats the run to the report of a failed run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.cluster.cluster import Cluster
from tests.simulation.world import World

LINES = 12
NEAR = {
    "test_builds", "test_forbidden", "test_forbidden_grpc", "test_gateways", "test_matrix", "test_pull_cost",
    "test_repetition",
}  # fmt: skip
"""Files whose tests count calls, compare runs, greet as a gateway, or have gateways anyway, as those of `cluster/`,
or have no node, as those of `kit/`. All others run twice."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test with clients at the node, and with clients at two gateways before it."""
    package, _, name = metafunc.module.__name__.rpartition(".")
    if name not in NEAR and not package.endswith((".cluster", ".kit")):
        metafunc.parametrize("distance", ("near", "far"), indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def distance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the clients of all worlds are. A world of a whole module asks for it, so that each distance has its own."""
    World.gateways_before = 2 if getattr(request, "param", "near") == "far" else 0
    yield
    World.gateways_before = 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed:
        for world in World.made:
            seconds = world.clock.monotonic_ns() / 1e9
            told = [f"seed {world.seed}: {world.kills} kills, {seconds:.3f} s of virtual time; its last events:"]
            told += world.ledger.trace[-LINES:]
            told.append(f"again: python -m pytest '{item.nodeid}'")
            report.sections.append((f"simulated node, seed {world.seed}", "\n".join(told)))
        for cluster in Cluster.made[-1:]:
            told = [cluster.timeline.text(), f"again: python -m tests.simulation.cluster.seeds {cluster.seed} -t"]
            report.sections.append((f"simulated cluster, seed {cluster.seed}", "\n".join(told)))
    if report.when == "teardown":
        World.made.clear()
        Cluster.made.clear()
