"""Which of the simulated runs are made, and what the report of a failed run shows: seed, last events, command to repeat it.

`make sim` and `make soak` make all runs. `./test` makes a part, the same each time: the clients of a test are at the node or at
two gateways before it, not both in turn; a sixth of the seeds; of no fault, a kill and a loss of power, one or two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.simulation.cluster.cluster import Cluster
from tests.simulation.world import World
from tests.store.faults.soak import SOAK

FOLDER = Path(__file__).parent
PARTS = {"distance": 2, "faults": 2, "seed": 6}
"""Of how many values of a parameter `./test` takes one."""

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, without SOAK, the values of each parameter of PARTS that the name of the test does not choose."""
    if SOAK or "::" in " ".join(config.args):
        return
    for name in PARTS:
        left_out = set(_not_chosen(items, name))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _not_chosen(items: list[pytest.Item], name: str) -> Iterator[pytest.Item]:
    """The tests of this folder whose value of the parameter `name` is not chosen. At least one value of each test is."""
    groups: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if FOLDER in item.path.parents and name in params:
            others = sorted((key, str(value)) for key, value in params.items() if key != name)
            groups[f"{item.nodeid.partition('[')[0]} {others}"].append(item)
    for test, same in groups.items():
        first = crc32(test.encode()) % min(PARTS[name], len(same))
        chosen = same[first :: PARTS[name]]
        yield from (item for item in same if item not in chosen)


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
