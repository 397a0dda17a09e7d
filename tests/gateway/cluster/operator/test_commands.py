"""`headgate cluster …`, as an operator calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import Heartbeats
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    GroupChange,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
    SetMinInSync,
)
from domain.controller.remote import RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ControllerFound
from domain.errors import GatewayError
from domain.set_aside import KeptAside
from gateway.client.answer import NO_PERMISSION, AccessError
from gateway.client.security import KeyPlace
from gateway.cluster.operator import controllers as asked
from gateway.cluster.operator import orders
from gateway.cluster.operator.controllers import ClusterControllers, ControllerSeen
from gateway.cluster.operator.status import faults
from gateway.node.cli import app
from tests.controller.groups.sample import CLUSTER, NAME, group_of, led, member, registered, says, start
from tests.gateway.cluster.operator.scripted_controllers import NOW_MS, ScriptedControllers
from tests.gateway.importing.scripted_server import Answer, ScriptedServer


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedControllers]:
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "")
    monkeypatch.setattr(orders, "JUST_STOPPED_S", 0.0)
    with ScriptedControllers(led((1, 2))) as found:
        found.hear(says(1, 1, 5_000_000), says(2, 1, 5_000_000), says(3, 1, 4_000_000))
        yield found


def headgate(here: ScriptedControllers, *words: str, typed: str = "") -> tuple[int, str]:
    """(exit status, output) of a command; a refusal has status 2 and its text."""
    result = CliRunner().invoke(app, ["cluster", *words, "--controller", here.addresses[0]], input=typed)
    if isinstance(result.exception, GatewayError):
        return 2, f"{result.output}{result.exception}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_status_shows_life_leader_strength_and_lag(here: ScriptedControllers) -> None:
    code, out = headgate(here, "status")
    assert code == 1
    found = out.splitlines()
    assert [line.split()[1:4] for line in found[1:4]] == [
        ["answers", "follows", "7"], ["answers", "leads", "7"], ["answers", "follows", "7"],
    ]  # fmt: skip
    assert "replica 1 leads in epoch 1; 2 of 3 in sync, at least 2 wanted" in out
    rows = {line.split()[0]: line for line in found if line[:2].strip().isdigit()}
    assert "leads" in rows["1"]
    assert "1,000,000 bytes" in rows["3"], "so far is it behind"
    assert "120 ms ago" in rows["3"]
    assert "log-3-1" in rows["3"], "the incarnation of its log"
    assert found[-1] == f"! store group {NAME}: replica 3 is not in sync: it gets what it lacks"


def test_status_of_a_group_at_full_strength_is_well(here: ScriptedControllers) -> None:
    here.groups = led((1, 2, 3))
    code, out = headgate(here, "status")
    assert (code, out.splitlines()[-1]) == (0, "all is well")


def test_nothing_is_well_where_no_controller_leads_or_no_group_is_known(here: ScriptedControllers) -> None:
    """Controllers that have just come back empty wait for each other, and know of no group."""
    here.groups = StoreGroups()
    code, out = headgate(here, "status")
    assert code == 1
    assert out.splitlines()[-1].startswith("! no store group has registered: ")
    found = ControllerSeen("c:1", ControllerFound(None, 7, 0, False, 0, (), (), {}, ""), "")
    assert faults([found], [(group_of(led((1, 2, 3))), ())])[0] == "no controller leads"


def test_status_for_programs(here: ScriptedControllers) -> None:
    code, out = headgate(here, "status", "--json")
    found = json.loads(out)
    assert code == 1
    assert [each["leads"] for each in found["controllers"]] == [False, True, False]
    assert found["groups"][0]["replicas"][2]["heard"]["position"] == 4_000_000
    assert len(found["faults"]) == 1


def test_a_leader_that_is_not_heard_is_waited_for_only_when_no_other_member_is_alive(here: ScriptedControllers) -> None:
    here.heartbeats = Heartbeats(0)
    here.hear(says(2, 1, 5_000_000))
    assert f"store group {NAME}: its leader, replica 1, is not heard\n" in headgate(here, "status")[1]


def test_a_silent_controller_and_a_group_without_a_leader_are_named(here: ScriptedControllers) -> None:
    here.addresses[2] = "127.0.0.1:1"
    start(here.groups, 1, life=2)
    start(here.groups, 2, life=2)
    code, out = headgate(here, "status")
    assert code == 1
    assert f"! controller {here.addresses[2]} does not answer" in out
    assert "nobody leads; replica 1, 2 has lost the log that it had in the set" in out


def test_move_has_another_member_lead(here: ScriptedControllers) -> None:
    code, out = headgate(here, "move", NAME, "2")
    assert code == 0
    assert "replica 2 leads broker-a from epoch 2 on; replica 1 led before" in out
    assert here.changes == [ElectLeader(NAME, designated=2)]
    assert "already" in headgate(here, "move", NAME, "2")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["move", NAME, "3", "--seconds", "0"], "nothing was changed: replica 3 is not in sync, and would lack records"),
        (["move", NAME, "9"], "has no replica 9: it has 1, 2, 3"),
        (["move", "broker-x", "1"], "there is no store group 'broker-x'; known are: broker-a"),
        (["remove", NAME, "3"], "stop it first, or give --even-living"),
        (["remove", NAME], "name the replicas to remove, or give --all"),
        (["remove", NAME, "1", "--all"], "name the replicas to remove, or give --all"),
        (["remove", NAME, "1", "2", "--even-living"], "in sync are 1, 2"),
        (["set", NAME, "--min-in-sync", "4"], "has 3 replicas that can be in sync"),
        (["recover", NAME, "3"], "give --accept-loss to go on"),
        (["recover", NAME, "3", "--accept-loss", "--name", "broker-b"], "'broker-b' is not the name"),
        (["recover", NAME, "3", "--accept-loss", "--name", NAME], "a member of the SyncStateSet is there"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(here: ScriptedControllers, words: list[str], said: str) -> None:
    before = group_of(here.groups)
    code, out = headgate(here, *words)
    assert code == 2
    assert said in out
    assert group_of(here.groups) == before


def test_remove_forgets_replicas_and_the_group(here: ScriptedControllers) -> None:
    code, out = headgate(here, "remove", NAME, "3", "--even-living")
    assert (code, here.changes) == (0, [CleanReplicas(NAME, (3,), even_living=True)])
    assert "2 of 2 in sync" in out
    assert "is removed" in headgate(here, "remove", NAME, "--all", "--even-living")[1]
    assert list(here.groups) == []


def test_set_changes_how_many_replicas_a_send_needs(here: ScriptedControllers) -> None:
    code, out = headgate(here, "set", NAME, "--min-in-sync", "3")
    assert (code, here.changes) == (0, [SetMinInSync(NAME, 3)])
    assert "at least 3 wanted for sends above flushed" in out
    assert "at least 2 wanted" in headgate(here, "set", NAME, "--min-in-sync", "0")[1]


def _lost(here: ScriptedControllers) -> StoreGroups:
    """Replica 1 has lost its disk, and 2 is away; 3 was never in the set."""
    start(here.groups, 1, life=2)
    here.heartbeats.closed(2, 0)
    here.heartbeats.closed(1, 0)
    return here.groups


def test_recover_names_the_loss_wants_the_name_and_says_who_leads(here: ScriptedControllers) -> None:
    groups = _lost(here)
    epoch = group_of(groups).set_epoch
    code, out = headgate(here, "recover", NAME, "3")
    assert code == 2
    assert "replica 1 of the set has lost its log log-1-1" in out
    assert "replica 2 of the set had records up to epoch 1, end of log 5,000,000: 1,000,000 bytes more" in out
    assert here.changes == []
    code, out = headgate(here, "recover", NAME, "3", "--accept-loss", typed="broker\n")
    assert (code, here.changes) == (2, [])
    code, out = headgate(here, "recover", NAME, "3", "--accept-loss", typed=f"{NAME}\n")
    assert code == 0
    assert "replica 3 leads broker-a from epoch" in out
    assert here.changes == [RecoverGroup(NAME, 3, epoch, NAME)]
    assert group_of(groups).members == (member(3),)


def test_a_change_whose_answer_says_nothing_is_asked_for_again(
    here: ScriptedControllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "REST_S", 0.0)
    here.unsure = 1
    code, out = headgate(here, "move", NAME, "2")
    assert (code, len(here.changes)) == (0, 2)
    assert "replica 2 leads" in out


def test_without_a_controller_that_leads_the_command_gives_up(
    here: ScriptedControllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "PATIENCE_S", 0.0)
    here.leading = 9
    code, out = headgate(here, "status")
    assert code == 2
    assert "no controller that leads answers" in out
    assert "does not lead" in out


def test_repair_waits_until_all_are_in_sync(here: ScriptedControllers) -> None:
    code, out = headgate(here, "repair", "--seconds", "0")
    assert code == 1
    assert "broker-a: replica 3 is alive, 1,000,000 bytes behind, 80 %" in out
    here.groups = led((1, 2, 3))
    code, out = headgate(here, "repair", NAME)
    assert code == 0
    assert out.splitlines()[0] == "broker-a: all 3 replicas are in sync: 1, 2, 3"
    assert "--replicas N" in out, "it knows of no replica that has not registered"


def test_repair_waits_for_a_replica_that_has_not_registered_yet(here: ScriptedControllers) -> None:
    here.groups = led((1, 2, 3))
    code, out = headgate(here, "repair", NAME, "--replicas", "4", "--seconds", "0")
    assert code == 1
    assert "broker-a: 1 of 4 replicas have not registered yet" in out
    assert here.groups.apply(ApplyId(NAME, CLUSTER, 4, "node-4", "h4:10911")).refusal is None
    code, out = headgate(here, "repair", NAME, "--replicas", "4", "--seconds", "0")
    assert code == 1, "it has an id, and no log yet"
    assert "replica 4 is dead" in out
    here.groups = led((1, 2, 3, 4), 4)
    assert headgate(here, "repair", NAME, "--replicas", "4") == (0, "broker-a: all 4 replicas are in sync: 1, 2, 3, 4\n")
    code, out = headgate(here, "repair", "broker-x", "--seconds", "0")
    assert code == 1
    assert "broker-x: there is no such store group" in out


def test_what_add_prints_says_how_to_wait_for_the_replica(here: ScriptedControllers) -> None:
    code, out = headgate(here, "add", NAME, "--address", "10.0.0.4:10912")
    assert code == 0
    assert "headgate cluster repair broker-a --replicas 4" in out
    assert "headgate cluster repair broker-a\n" in headgate(here, "add", NAME, "--address", "10.0.0.4:10912", "--learner")[1]


def test_commands_end_with_the_next_step(here: ScriptedControllers) -> None:
    code, out = headgate(here, "set", NAME, "--min-in-sync", "3")
    assert code == 0
    assert "next: sends above flushed are refused until 3 replicas of broker-a are in sync (2 now): wait until replica 3" in out
    assert "headgate cluster set broker-a --min-in-sync 2" in out
    out = headgate(here, "set", NAME, "--min-in-sync", "2")[1]
    assert out.splitlines()[-1].startswith("next: headgate cluster repair broker-a waits until replica 3 is in sync")
    out = headgate(here, "remove", NAME, "3", "--even-living")[1]
    assert out.splitlines()[-1].startswith("nothing more is to be done: all replicas of broker-a are in sync")


def test_recover_ends_with_what_sends_need(here: ScriptedControllers) -> None:
    _lost(here)
    code, out = headgate(here, "recover", NAME, "3", "--accept-loss", "--name", NAME)
    assert code == 0
    assert out.splitlines()[-1].startswith("next: sends above flushed are refused until 2 replicas")
    assert out.splitlines()[-1].endswith("headgate cluster set broker-a --min-in-sync 1")


def test_without_a_leader_nobody_gets_what_it_lacks(here: ScriptedControllers) -> None:
    here.heartbeats.closed(1, 0)
    here.heartbeats.closed(2, 0)
    code, out = headgate(here, "status")
    assert code == 1
    assert "replica 3 is not in sync: there is no leader to get from what it lacks" in out


def test_a_leader_that_is_not_reached_from_here_is_a_fault(here: ScriptedControllers, monkeypatch: pytest.MonkeyPatch) -> None:
    here.groups = led((1, 2, 3))
    assert headgate(here, "status")[0] == 0
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "Connection refused")
    code, out = headgate(here, "status")
    assert code == 1
    assert "replica 1 leads, and is not reached from here at h1:10911 (Connection refused)" in out
    found = json.loads(headgate(here, "status", "--json")[1])
    assert len(found["faults"]) == 1


def test_a_server_is_reached_when_it_takes_a_connection(here: ScriptedControllers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    controllers = ClusterControllers(here.addresses, None, None)
    assert controllers.why_not_reached(here.addresses[0]) == ""
    assert "refused" in controllers.why_not_reached("127.0.0.1:1")
    controllers.close()


def test_controllers_that_answer_here_and_not_each_other_are_a_fault() -> None:
    """A leader that is parted from the others goes on to answer tools until it steps down."""
    group = [(group_of(led((1, 2, 3))), ())]

    def seen(node: int, leads: bool, hears: tuple[int, ...]) -> ControllerSeen:
        places = {each: f"c{each}:1" for each in hears}
        return ControllerSeen(f"c{node}:1", ControllerFound(None, node, 3, leads, 1, (1, 2, 3), (), places, ""), "")

    whole = [seen(1, True, (1, 2, 3)), seen(2, False, (1, 2, 3)), seen(3, False, (1, 2, 3))]
    assert not [each for each in faults(whole, group) if "controller" in each]
    parted = [seen(1, True, (1,)), seen(2, False, (2, 3)), seen(3, False, (2, 3))]
    assert "controller c1:1 leads, and does not reach c2:1, c3:1, which answer here" in faults(parted, group)[0]
    two = [seen(1, True, (1,)), seen(2, True, (2, 3)), seen(3, False, (2, 3))]
    assert "controllers c1:1 and c2:1 both say that they lead" in faults(two, group)[0]


def forget(here: ScriptedControllers) -> None:
    """The controllers came back empty, and the replicas have registered with what they have."""
    here.groups = registered()
    for number, epoch, position in ((1, 4, 900), (2, 4, 5_000), (3, 0, 0)):
        report = says(number, epoch, position)
        here.groups.apply(
            RegisterReplica(NAME, CLUSTER, number, f"h{number}:10911", report.incarnation, epoch=epoch, position=position)
        )
        here.hear(report)


def test_of_a_forgotten_group_status_says_what_to_do_and_all_logs_are_shown(here: ScriptedControllers) -> None:
    forget(here)
    code, out = headgate(here, "status")
    assert code == 1
    assert out.splitlines()[-1].endswith(f"headgate cluster restore-controllers {NAME}")
    code, out = headgate(here, "restore-controllers", NAME)
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["1", "2", "3"]
    assert "5,000" in rows["2"]
    assert "the longest log is that of replica 2: epoch 4, end 5,000" in out
    assert here.changes == []


def test_a_group_is_restored_from_the_longest_log_and_from_another_one_only_when_told_to(here: ScriptedControllers) -> None:
    forget(here)
    code, out = headgate(here, "restore-controllers", NAME, "1")
    assert code == 2
    assert "the log of replica 1 lacks what replica 2 has" in out
    assert here.changes == []
    code, out = headgate(here, "restore-controllers", NAME, "2")
    assert code == 0
    assert f"replica 2 leads {NAME} from epoch 5 on; the others follow it from here" in out.splitlines()
    assert f"headgate cluster repair {NAME}" in out.splitlines()[-2], "the next step"
    code, out = headgate(here, "restore-controllers", NAME, "1", "--accept-loss")
    assert code == 2
    assert "has had an election" in out


def test_a_group_is_restored_from_another_log_when_told_to(here: ScriptedControllers) -> None:
    forget(here)
    code, out = headgate(here, "restore-controllers", NAME, "1", "--accept-loss")
    assert code == 0, out
    assert group_of(here.groups).leader == 1


def test_with_all_replicas_there_the_longest_log_is_taken_without_its_number(here: ScriptedControllers) -> None:
    forget(here)
    code, out = headgate(here, "restore-controllers", NAME, "--replicas", "4")
    assert code == 2
    assert "3 of 4 replicas have registered" in out
    assert here.changes == []
    code, out = headgate(here, "restore-controllers", NAME, "--replicas", "3")
    assert code == 0, out
    assert (group_of(here.groups).leader, group_of(here.groups).leader_epoch) == (2, 5)


def test_the_former_name_of_the_command_is_read(here: ScriptedControllers) -> None:
    forget(here)
    code, out = headgate(here, "found", NAME, "2")
    assert code == 0, out
    assert group_of(here.groups).leader == 2


def test_logs_of_several_store_groups_are_told_apart(here: ScriptedControllers) -> None:
    forget(here)
    for number, identity in ((1, "aa"), (2, "bb")):
        change = RegisterReplica(NAME, CLUSTER, number, "h:1", says(number).incarnation, epoch=4, identity=identity)
        here.groups.apply(change)
    code, out = headgate(here, "restore-controllers", NAME)
    assert code == 0
    assert "! the logs of replicas 1 are of their own store group (aa), and follow no other one" in out.splitlines()


def test_controllers_with_an_older_copy_are_told_of_and_restored(here: ScriptedControllers) -> None:
    """Their folders came from a backup: replica 2 has records of an epoch that was given later."""
    here.hear(says(2, 7, 6_000_000))
    code, out = headgate(here, "status")
    assert code == 1
    assert f"headgate cluster restore-controllers {NAME}" in out
    before = group_of(here.groups)
    code, out = headgate(here, "restore-controllers", NAME, "--replicas", "3")
    assert group_of(here.groups) == before, "these controllers are of the version before, whose rule this is"
    assert code == 2
    assert "has had an election" in out
    here.fresh = "ours"
    code, out = headgate(here, "restore-controllers", NAME, "--replicas", "3")
    assert code == 0, out
    after = group_of(here.groups)
    assert (after.leader, after.leader_epoch, after.in_sync) == (2, 8, (2,))
    assert headgate(here, "status")[1].count("restore-controllers") == 0


def test_status_shows_what_replicas_have_set_aside(here: ScriptedControllers) -> None:
    here.heartbeats.heard(NAME, ReplicaWord(says(3, 1, 4_000_000), aside=KeptAside(2, 12_345)), 3_000, 3, NOW_MS)
    _, out = headgate(here, "status")
    assert out.count("set aside") == 1
    assert "replica 3 at h3:10911 keeps 12,345 bytes in 2 folders that were set aside: headgate set-aside list DIR there" in out
    _, out = headgate(here, "status", "--json")
    assert json.loads(out)["groups"][0]["replicas"][2]["heard"]["setAside"] == [2, 12_345]


def test_status_says_why_a_replica_that_is_alive_does_not_follow(here: ScriptedControllers) -> None:
    here.heartbeats.heard(NAME, ReplicaWord(says(3, 9), refuses="its own log is of epoch 9"), 3_000, 3, NOW_MS)
    code, out = headgate(here, "status")
    assert code == 1
    assert out.splitlines()[-1] == f"! store group {NAME}: replica 3 is not in sync: its own log is of epoch 9"


def test_a_controller_is_renewed_only_while_a_majority_of_the_others_works(
    here: ScriptedControllers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller" / "raft").mkdir(parents=True)
    (tmp_path / "controller" / "identity").write_text("?")
    (tmp_path / "controller" / "raft" / "1").write_text("entries")
    monkeypatch.setattr(asked, "PATIENCE_S", 0.1)
    here.leading = 9
    words = ("renew-controller", str(tmp_path))
    code, out = headgate(here, *words)
    assert code == 2
    assert "no controller that leads answers" in out
    assert (tmp_path / "controller" / "identity").read_text() == "?"
    here.leading = 1
    code, out = headgate(here, *words)
    assert code == 0, out
    assert list((tmp_path / "controller" / "raft").iterdir()) == []
    assert not (tmp_path / "controller" / "identity").exists()
    aside = tmp_path / "set-aside" / "controller-1" / "controller"
    assert (aside / "identity").read_text() == "?"
    assert (aside / "raft" / "1").read_text() == "entries"
    code, out = headgate(here, "renew-controller", str(tmp_path / "nowhere"))
    assert code == 2
    assert "has no folder controller/" in out


def test_an_access_key_that_is_changed_while_a_tool_waits_is_read_again(here: ScriptedControllers, tmp_path: Path) -> None:
    place = tmp_path / "key"
    place.write_text("before:password\n")
    accepted = ["before"]

    def answer(code: int, fields: Mapping[str, str], body: bytes) -> Answer:
        return here.servers[1]._answer(code, fields, body) if fields["AccessKey"] in accepted else (NO_PERMISSION, {}, b"")

    with ScriptedServer(answer) as server:
        controllers = ClusterControllers([server.address], None, KeyPlace(str(place)))
        assert controllers.controller(server.address).why == ""
        accepted[:] = ["after"]
        with pytest.raises(AccessError):
            controllers.controller(server.address)
        place.write_text("after:password\n")
        assert controllers.controller(server.address).why == ""
        controllers.close()


def test_the_number_of_members_that_confirm_is_set_and_shown(here: ScriptedControllers) -> None:
    for number in (1, 2, 3):
        here.hear(replace(says(number, 1, 5_000_000), fence=0))
    assert headgate(here, "set", NAME, "--acks", "4") == (
        2, f"acks of store group {NAME} is 2 (min_in_sync) to 3 (its replicas that can be in sync), or 0 for all: 4 is not "
        "possible",
    )  # fmt: skip
    code, out = headgate(here, "set", NAME, "--acks", "2")
    assert code == 0
    assert "all of them confirm (acks, to be 2), an election needs 1" in out
    assert "From then on an election needs 2 of 3 members that are alive with their logs" in out
    assert headgate(here, "set", NAME)[0] == 2, "nothing to change"


def test_a_group_whose_members_are_too_few_for_an_election_says_what_it_waits_for() -> None:
    groups = led((1, 2, 3))
    assert groups.apply(SetAcks(NAME, 2)).refusal is None
    altered = AlterSet(NAME, 1, 1, group_of(groups).set_epoch, tuple(map(member, (1, 2, 3))), acks=2)
    assert groups.apply(altered).refusal is None
    start(groups, 1)
    with ScriptedControllers(groups) as found:
        found.hear(says(1))
        _, out = headgate(found, "status")
    assert "nobody leads; 2 of 3 members have to be alive (acks is 2): waits for replica 2 or 3" in out
    assert "2 of them confirm (acks), an election needs 2" in out


def test_what_the_default_of_two_replicas_costs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "")
    with ScriptedControllers(led((1, 2), replicas=2)) as found:
        found.hear(says(1), says(2))
        code, out = headgate(found, "status")
        assert (code, "note: of two replicas one in sync is enough for sends" in out) == (0, True)
        assert "note:" not in headgate(found, "set", NAME, "--min-in-sync", "2")[1]
        assert "note:" not in headgate(found, "status")[1], "an operator has decided"


def test_a_replica_that_was_stopped_just_now_is_removed_when_it_counts_as_dead(
    here: ScriptedControllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "JUST_STOPPED_S", 30.0)
    monkeypatch.setattr(orders, "POLL_S", 0.0)
    own = here.groups.apply

    def apply(change: GroupChange) -> GroupAnswer:
        if len(here.changes) == 3:
            here.heartbeats.closed(3, 0)
        return own(change)

    monkeypatch.setattr(here.groups, "apply", apply)
    code, out = headgate(here, "remove", NAME, "3")
    assert code == 0, out
    assert len(here.changes) == 4, "it was alive three times"


def test_a_remote_replica_is_promoted_and_what_it_lacks_is_told_in_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterControllers, "why_not_reached", lambda self, address: "")
    groups = led((1, 2))
    start(groups, 3, learner=True)
    with ScriptedControllers(groups) as found:
        remote = RemoteWord("frankfurt", 4_096, 61_500)
        for number, position in ((1, 5_000_000), (2, 5_000_000)):
            found.hear(says(number, 1, position))
        found.heartbeats.heard(NAME, ReplicaWord(says(3, 1, 4_900_000), remote=remote), 0, object(), NOW_MS - 120)
        assert "remote: frankfurt" in headgate(found, "status")[1]
        code, out = headgate(found, "promote", NAME, "3", "--accept-loss", "--name", NAME)
        assert code == 2
        assert GroupRefusal.MEMBER_COMES_BACK.value in out
        found.heartbeats = Heartbeats(0)
        found.heartbeats.heard(NAME, ReplicaWord(says(3, 1, 4_900_000), remote=remote), 0, object(), NOW_MS - 120)
        left = "its leader, replica 1, is not heard; waits for replica 1 or 2. If none comes back: headgate cluster recover"
        assert left in headgate(found, "status")[1]
        code, out = headgate(found, "recover", NAME, "3", "--accept-loss")
        assert (code, out.endswith(f"replica 3 is a learner: headgate cluster promote {NAME} 3")) == (2, True)
        code, out = headgate(found, "promote", NAME, "3")
        assert code == 2
        assert "replica 3 is in frankfurt: the last word of its leader came 61.5 s ago" in out
        assert "of what was confirmed then it lacks 4,096 bytes" in out
        assert "give --accept-loss to go on" in out
        code, out = headgate(found, "promote", NAME, "3", "--accept-loss", typed=f"{NAME}\n")
        assert code == 0
        assert f"replica 3 leads {NAME} from epoch 2 on, alone in sync" in out
        assert "take learner and remote out of the table" in out
        assert group_of(groups).in_sync == (3,)
        assert headgate(found, "promote", NAME, "2")[0] == 2, "no learner"
