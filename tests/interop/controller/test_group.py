"""Controllers that are killed, and one that loses its directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.controller.controllers import Controllers, until

pytestmark = pytest.mark.interop


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    with Controllers(tmp_path) as running:
        yield running


def _metric(text: str, name: str) -> float:
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"headgate_{name} "))


def test_another_leads_when_the_leader_is_killed_and_all_lead_again_after_kills_of_all(controllers: Controllers) -> None:
    first = controllers.leader()
    first.kill()
    second = controllers.leader(first)
    first.start()
    until(lambda: _metric(first.admin("/metrics"), "controller_in_group") == 1, "it takes part again")
    assert controllers.leader() is second
    for node in controllers.nodes:
        node.kill()
    for node in controllers.nodes:
        node.start()
    controllers.leader()
    assert "the controllers are" in controllers.nodes[0].text(), "founded once"
    assert controllers.nodes[0].text().count("the controllers are") == 1


def test_who_lost_its_directory_comes_back_as_a_new_member(controllers: Controllers) -> None:
    leader = controllers.leader()
    lost = next(node for node in controllers.nodes if node is not leader)
    lost.kill()
    shutil.rmtree(lost.data)
    lost.start()
    until(lambda: "voters" in leader.text(), "the leader takes it in")
    other = next(node for node in controllers.nodes if node not in (leader, lost))
    until(
        lambda: _metric(leader.admin("/metrics"), "controller_members") == 3 and leader.text().count("voters") >= 2, "it votes"
    )
    other.kill()
    assert controllers.leader(other) in (leader, lost), "two of three are a majority, and the newcomer is one of them"
