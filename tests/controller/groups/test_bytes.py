"""Commands and snapshots as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

import pytest

from controller.groups import command, snapshot
from controller.groups.groups import StoreGroups
from controller.groups.limits import is_within
from controller.raft.refusal import LaterVersionError
from domain.controller import change as changes
from domain.controller.change import (
    AlterSet,
    ApplyId,
    CleanReplicas,
    ElectLeader,
    FoundGroup,
    GroupChange,
    PromoteLearner,
    RecoverGroup,
    RegisterReplica,
    SetAcks,
    SetMinInSync,
)
from domain.controller.controller_list import SetControllers
from domain.controller.group import SetMember, StoreGroup, StoreReplica
from tests.controller.groups.sample import CLUSTER, NAME, incarnation, led, members, says, start

CHANGES = [
    ApplyId(NAME, CLUSTER, 1, "node-1", "h:10911"),
    RegisterReplica(NAME, CLUSTER, 1, "hôte:10911", "log", True, 3, 1 << 40, "before"),
    AlterSet(NAME, 1, 2, 3, members(1, 2), (4, 5)),
    ElectLeader(NAME, (says(1), says(2)), 1, 2, 3),
    CleanReplicas(NAME, (1, 2), (3,), True),
    SetMinInSync(NAME, 2),
    RecoverGroup(NAME, 2, 5, NAME, (says(2),)),
    FoundGroup(NAME, 2, (says(2),)),
    SetAcks(NAME, 2),
    PromoteLearner(NAME, 3, 5, NAME, (says(3),)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: type(each).__name__)
def test_a_command_is_read_as_it_was_written(change: GroupChange) -> None:
    data = command.encode(change)
    assert command.decode(data) == change
    assert is_within(change)


def test_every_change_has_a_number_of_its_own() -> None:
    assert {type(each) for each in CHANGES} | {SetControllers} == set(command.KINDS.values())
    named = {each for each in vars(changes).values() if isinstance(each, type) and issubclass(each, GroupChange)}
    assert named - {GroupChange} == set(command.KINDS.values()) - {SetControllers}
    assert list(command.KINDS) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_the_bytes_of_a_command_do_not_change() -> None:
    data = command.encode(AlterSet("g", 1, 2, 3, (SetMember(4, "é"),), (5,)))
    assert data.hex() == (
        "0103" "000167" "0000000000000001" "0000000000000002" "0000000000000003"
        "0001" "0000000000000004" "0002c3a9" "0001" "0000000000000005"
    )  # fmt: skip


def test_versions_before_read_a_registration_that_names_no_process() -> None:
    """Controllers of 44998bdc know version 1 alone: it is written as they wrote it."""
    plain = RegisterReplica("g", "c", 1, "h:1", "log")
    data = command.encode(plain)
    assert data.hex() == (
        "0102" "000167" "000163" "0000000000000001" "0003683a31" "00036c6f67" "00" "ffffffffffffffff" "ffffffffffffffff" "0000"
    )  # fmt: skip
    named = replace(plain, run="b", runs_before=("a", "z"))
    whole = command.encode(named)
    assert whole == b"\2" + data[1:] + bytes.fromhex("000162000200016100017a")
    assert command.decode(whole) == named


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: type(each).__name__)
def test_other_bytes_are_no_command(change: GroupChange) -> None:
    data = command.encode(change)
    for wrong in (b"", b"\1", b"\2" + data[1:], b"\1\0" + data[2:], data + b"\0", *(data[:end] for end in range(2, len(data)))):
        with pytest.raises(ValueError, match=r"no command|a command in the log|within a value|follow|truth value"):
            command.decode(wrong)


def some_groups() -> StoreGroups:
    groups = led((1, 2, 3))
    start(groups, 2, life=2, continues=incarnation(2))
    start(groups, 3, life=2, learner=True)
    groups.apply(SetMinInSync(NAME, 2))
    groups.apply(ApplyId("gone", CLUSTER, 1, "node", "h:1"))
    groups.apply(RegisterReplica("gone", CLUSTER, 1, "h:1", "log"))
    groups.apply(ElectLeader("gone", asker=1))
    groups.apply(CleanReplicas("gone", even_living=True))
    groups.apply(ApplyId("empty", CLUSTER, 1, "node", "h:1"))
    return groups


def some_groups_with_runs() -> StoreGroups:
    groups = some_groups()
    groups.apply(RegisterReplica(NAME, CLUSTER, 2, "h:1", incarnation(2, 2), run="run"))
    return groups


def some_groups_with_identities() -> StoreGroups:
    groups = some_groups_with_runs()
    groups.apply(RegisterReplica(NAME, CLUSTER, 2, "h:1", incarnation(2, 2), run="run", identity="ours", fresh="ours"))
    return groups


def some_groups_with_acks() -> StoreGroups:
    groups = led((1, 2, 3))
    assert groups.apply(SetAcks(NAME, 2)).refusal is None
    group = next(iter(groups))
    assert groups.apply(AlterSet(NAME, 1, 1, group.set_epoch, members(1, 2, 3), acks=2)).refusal is None
    return groups


def test_versions_before_read_a_snapshot_without_acks() -> None:
    data = snapshot.snapshot(some_groups_with_acks())
    assert data[0] == 5
    assert list(snapshot.restore(data)) == list(some_groups_with_acks())


def test_versions_before_read_changes_of_a_group_of_which_all_members_confirm() -> None:
    altered, elected = AlterSet(NAME, 1, 2, 3, members(1, 2)), ElectLeader(NAME, (says(1),), 0, 0, 3)
    applied = ApplyId(NAME, "main", 3, "node-3", "h3:10911")
    later = [(altered, replace(altered, acks=2)), (elected, replace(elected, fenced=(1,)))]
    later.append((applied, replace(applied, dead=(3,))))
    for plain, whole in later:
        assert [command.encode(each)[0] for each in (plain, whole)] == [1, 4]
        assert command.decode(command.encode(whole)) == whole


def test_versions_before_read_a_snapshot_without_runs() -> None:
    groups = some_groups()
    assert snapshot.snapshot(groups)[0] == 1
    assert list(snapshot.restore(snapshot.snapshot(groups))) == list(groups)
    runs = some_groups_with_runs()
    assert snapshot.snapshot(runs)[0] == 3
    assert list(snapshot.restore(snapshot.snapshot(runs))) == list(runs)


def test_a_snapshot_holds_the_whole_state() -> None:
    with_acks = replace(next(iter(some_groups_with_acks())), name="acks")
    groups = StoreGroups(iter((*some_groups_with_identities(), with_acks)), 1)
    again = snapshot.restore(snapshot.snapshot(groups))
    assert list(again) == list(groups)
    assert again.floor == groups.floor == 1
    kept = {each.name for each in fields(StoreGroup) if each.compare}
    assert _set_fields(groups) == kept, "a field of the sample has its default: set it"
    assert _set_fields(next(iter(groups)).replicas) == {each.name for each in fields(StoreReplica)}


def _set_fields(values: Iterable[StoreGroup | StoreReplica]) -> set[str]:
    """Names of the fields that are not empty or 0 in one of the values."""
    return {name.name for each in values for name in fields(each) if getattr(each, name.name)}


def test_a_new_raft_group_begins_without_groups() -> None:
    assert len(snapshot.restore(b"")) == 0
    assert len(snapshot.restore(snapshot.snapshot(StoreGroups()))) == 0


def test_what_a_later_version_writes_is_named() -> None:
    groups = snapshot.snapshot(some_groups())
    with pytest.raises(LaterVersionError, match="version 6: a later version has written it"):
        snapshot.restore(b"\6" + groups[1:])
    for data in (b"\6\1", b"\1\x0c", b"\2\xff and more"):
        with pytest.raises(LaterVersionError, match="a command in the log has version"):
            command.decode(data)


def test_other_bytes_are_no_snapshot() -> None:
    data = snapshot.snapshot(some_groups_with_runs())
    for wrong in (b"\2" + data[1:], data + b"\0", *(data[:end] for end in range(1, len(data)))):
        with pytest.raises(ValueError, match=r"of version|within a value|follow|truth value"):
            snapshot.restore(wrong)
