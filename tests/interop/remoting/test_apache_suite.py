"""Integration tests of Apache RocketMQ 5.5.0, unmodified, against three nodes: those that take less than minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.interop.remoting.apache_suite.cluster import PROJECT, Cluster, outcomes, suite
from tests.store.faults.soak import SOAK

OFTEN = suite()["often"]
GROUP_S = 240
SAMPLE = "receivers"
"""The group that runs without SOAK in the environment, too."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("suite")) as running:
        yield running


@pytest.mark.parametrize("group", OFTEN)
def test_apaches_own_tests_pass(cluster: Cluster, group: str) -> None:
    if not SOAK and group != SAMPLE:
        pytest.skip("two more minutes of Apache's own tests: make soak runs them")
    said = cluster.run(OFTEN[group], GROUP_S)
    found = outcomes(said)
    assert said.endswith("done\n"), said[-8000:]
    assert "failed" not in found.values(), said[-8000:]
    assert {name.partition("#")[0] for name, outcome in found.items() if outcome == "passed"} == set(OFTEN[group])


def test_the_table_for_readers_has_every_class_that_is_run_and_every_test_that_is_left_out() -> None:
    text = (PROJECT / "README.md").read_text()
    listed = suite()
    for groups in (listed["often"], listed["seldom"]):
        for each in (name for classes in groups.values() for name in classes):
            assert re.search(rf"`{re.escape(each)}`", text), each
    for test in (*listed["absent"], *listed["differs"]["node"]):
        assert test.partition("#")[2].partition("[")[0] in text, test
