"""`headgate cluster status` is not 0 while clients are served by nobody, or by two, or somebody was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from controller.groups.heartbeats import Heartbeats
from domain.controller.change import SetMinInSync
from domain.controller.gateway_search import GatewaySearch
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import GatewayMissed, StrangerSeen
from domain.controller.serving import SERVES_NOBODY, UNSAID, GatewayWord, ServingWord
from gateway.cluster.operator.controllers import ClusterControllers
from tests.controller.groups.sample import NAME, led, says, start
from tests.gateway.cluster.operator.scripted_controllers import NOW_MS, ScriptedControllers
from tests.gateway.cluster.operator.test_commands import headgate

LEADS = ServingWord(1, "", (GatewayWord("a1", "gw-1"),))
WELL = (0, "all is well")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedControllers]:
    """Three replicas in sync, the first of which leads in epoch 1 and serves clients."""
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "")
    with ScriptedControllers(led((1, 2, 3))) as found:
        say(found, LEADS, SERVES_NOBODY, SERVES_NOBODY)
        yield found


def say(here: ScriptedControllers, *words: ServingWord) -> None:
    """The heartbeats of replicas 1, 2, …."""
    here.heartbeats = Heartbeats(0)
    for number, word in enumerate(words, 1):
        here.heartbeats.heard(NAME, ReplicaWord(says(number, 1, 5_000_000), serving=word), 3_000, number, NOW_MS - 120)


def last(here: ScriptedControllers) -> tuple[int, str]:
    """Exit status, and the last line."""
    code, out = headgate(here, "status")
    return code, out.splitlines()[-1]


def test_all_is_well_while_the_leader_alone_is_ready_or_no_replica_says_who_is(here: ScriptedControllers) -> None:
    assert last(here) == WELL
    say(here, UNSAID, UNSAID, UNSAID)
    assert last(here) == WELL, "replicas of the version before do not say"


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_replica_that_serves_clients_beside_the_leader_is_a_fault(here: ScriptedControllers, epoch: int) -> None:
    say(here, LEADS, ServingWord(epoch), SERVES_NOBODY)
    code, line = last(here)
    assert code == 1
    assert f"replica 2 serves clients as the leader of epoch {epoch}, and replica 1 leads in epoch 1" in line
    assert "stop its process" in line
    found = json.loads(headgate(here, "status", "--json")[1])
    assert found["groups"][0]["replicas"][1]["heard"]["serving"]["epoch"] == epoch


def test_a_leader_that_serves_in_an_earlier_epoch_is_a_fault(here: ScriptedControllers) -> None:
    """It was deposed and elected again, and has heard of neither."""
    say(here, LEADS._replace(epoch=7), SERVES_NOBODY, SERVES_NOBODY)
    code, line = last(here)
    assert code == 1
    assert "replica 1 serves clients as the leader of epoch 7, and replica 1 leads in epoch 1" in line


def test_a_leader_that_is_not_ready_is_a_fault_and_says_why(here: ScriptedControllers) -> None:
    say(here, SERVES_NOBODY, SERVES_NOBODY, SERVES_NOBODY)
    code, line = last(here)
    assert code == 1
    assert "its leader, replica 1, is not ready: it does not serve clients yet, so that gateways find nobody" in line
    say(here, LEADS._replace(unready="only 3% of the volume is free"), SERVES_NOBODY, SERVES_NOBODY)
    assert last(here) == (
        1, f"! store group {NAME}: its leader, replica 1, is not ready: only 3% of the volume is free"
    )  # fmt: skip


def test_a_member_that_is_not_heard_is_a_fault_though_it_stays_in_the_set(here: ScriptedControllers) -> None:
    assert here.groups.apply(SetMinInSync(NAME, 3)).refusal is None
    here.heartbeats.closed(3, NOW_MS)
    code, line = last(here)
    assert code == 1
    assert "replica 3 is not heard, and still a member of the SyncStateSet" in line


def test_a_learner_that_is_not_heard_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "")
    groups = led((1, 2))
    start(groups, 3, learner=True)
    with ScriptedControllers(groups) as here:
        say(here, LEADS, SERVES_NOBODY, SERVES_NOBODY)
        assert last(here) == WELL
        here.heartbeats.closed(3, NOW_MS)
        code, line = last(here)
        assert (code, "replica 3, a learner, is not heard" in line) == (1, True)


def test_who_was_refused_a_short_time_ago_is_a_fault_once(here: ScriptedControllers) -> None:
    here.strangers = [StrangerSeen(NAME, "10.9.9.9", "the log is of another store group", 4_200)]
    code, out = headgate(here, "status")
    wanted = f"! store group {NAME}: refused a process at 10.9.9.9, the last time 4 s ago: the log is of another store group"
    assert (code, out.count("refused a process"), out.splitlines()[-1]) == (1, 1, wanted), "each of three controllers says it"


def test_a_gateway_that_has_never_found_a_leader_is_a_fault_once(here: ScriptedControllers) -> None:
    search = GatewaySearch("gw-9", "h1:10911, h7:10911", "h7:10911: connection refused", 40_900)
    here.searching = [search]
    code, out = headgate(here, "status")
    assert (code, out.count("gateway gw-9")) == (1, 1)
    assert "gateway gw-9 finds no leader of a store group, for 40 s: it tries h1:10911, h7:10911, and" in out
    assert "(h7:10911: connection refused)" in out


def test_a_gateway_that_has_not_found_the_leader_is_a_fault_once(here: ScriptedControllers) -> None:
    here.gateways = [GatewayMissed(NAME, "gw-2", 40_900)]
    code, out = headgate(here, "status")
    assert (code, out.count("gateway gw-2")) == (1, 1)
    assert "gateway gw-2 does not reach the leader that there is now: last heard 40 s ago" in out
