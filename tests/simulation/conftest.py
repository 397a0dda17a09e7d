"""Adds the seed, the last events and the command that repeats the run to the report of a failed run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.world import World

LINES = 12


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
    if report.when == "teardown":
        World.made.clear()
