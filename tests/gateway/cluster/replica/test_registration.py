"""A replica gets one id, also when the answer that gave it one was lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from controller.groups import snapshot
from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import ApplyId, ElectLeader, GroupChange, PromoteLearner, RegisterReplica
from domain.controller.group import NOTHING_SEEN, ReplicaReport, StateSeen, StoreGroup
from domain.set_aside import NOTHING
from gateway.cluster.replica.identity import ReplicaIdentity
from gateway.cluster.replica.registering_state import AGAIN_MS, LOST_MS, LogFacts, RegisteringState, ReplicaPlace
from gateway.cluster.strangers import Strangers
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import FixedEntropy, SeededEntropy

log = logging.getLogger("headgate.replica")


class LossyControllers:
    """The real rules; the first answer to ApplyId is lost."""

    where = "10.0.0.9:9878"

    def __init__(self) -> None:
        self.groups = StoreGroups()
        self.applied: list[int] = []
        self.dead: tuple[int, ...] = ()

    def ask(self, done: Callable[[StoreGroup | None, bool], None]) -> None:
        done(self.groups.group("g"), True)

    silence = "no controller answers"

    def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        answer = self.groups.apply(replace(change, dead=self.dead) if isinstance(change, ApplyId) else change)
        if isinstance(change, ApplyId):
            self.applied.append(change.id)
            if len(self.applied) == 1:
                done(None)
                return
        done(answer)


def test_an_answer_that_was_lost_costs_no_second_id() -> None:
    clock, controllers = VirtualClock(), LossyControllers()
    identity = ReplicaIdentity(MemoryDisk(clock), cast(Any, FixedEntropy()))
    place = ReplicaPlace("c", "g", identity, "10.0.0.1:1", False, Strangers(log, clock), lambda: NOTHING)
    enrolled: list[int] = []
    enrolment = RegisteringState(
        place, lambda: LogFacts(7, 0, 0, 0), cast(Any, controllers), clock, lambda own, _group: enrolled.append(own)
    )
    enrolment.start(enrolment.why)
    clock.run_for(AGAIN_MS * 3)
    assert controllers.applied == [1, 1]
    assert enrolled == [1]
    group = controllers.groups.group("g")
    assert group is not None
    assert [each.id for each in group.replicas] == [1]


EMPTY = LogFacts(7, 0, 0, 0)
WRITTEN = LogFacts(7, 0, 3, 900)
"""A log with records of an election."""


class Directory:
    """A data directory of a replica, and processes that begin in it."""

    def __init__(self, controllers: Any, disk: MemoryDisk | None = None) -> None:
        self.clock = VirtualClock()
        self.disk = disk or MemoryDisk(self.clock)
        self._controllers = controllers
        self.strangers = Strangers(log, self.clock)

    def copy(self) -> Directory:
        """The directory of a cloned machine."""
        copied = Directory(self._controllers)
        for name, content in self.disk.files.items():
            copied.disk.replace(name, bytes(content.data))
        return copied

    def starts(self, run: str, facts: LogFacts = EMPTY, learner: bool = False) -> str:
        """A process begins, and registers: why it may not, "" when it may."""
        identity = ReplicaIdentity(self.disk, cast(Any, FixedEntropy()), run)
        place = ReplicaPlace("c", "g", identity, f"10.0.0.1:{run}", learner, self.strangers, lambda: NOTHING)
        enrolment = RegisteringState(place, lambda: facts, cast(Any, self._controllers), self.clock, lambda _own, _group: None)
        enrolment.start(enrolment.why)
        self.clock.run_for(AGAIN_MS * 3)
        enrolment.leave()
        return enrolment.why


def test_a_copy_of_a_directory_never_registers_once_the_original_has_run_again() -> None:
    """A cloned machine: both processes would be one replica, and acknowledge different messages at one offset."""
    controllers = LossyControllers()
    original = Directory(controllers)
    assert original.starts("1") == ""
    copy = original.copy()
    assert original.starts("2") == ""
    assert copy.starts("3") == GroupRefusal.COPIED.value
    assert copy.starts("4") == GroupRefusal.COPIED.value
    assert original.starts("5") == ""


def test_a_copy_that_runs_first_goes_on_and_the_original_does_not() -> None:
    controllers = LossyControllers()
    original = Directory(controllers)
    assert original.starts("1") == ""
    copy = original.copy()
    assert copy.starts("2") == ""
    assert original.starts("3") == GroupRefusal.COPIED.value
    assert copy.starts("4") == ""


def test_a_directory_registers_after_any_number_of_processes_that_have_not() -> None:
    """The answer to one of them was lost with the process: the controllers know one of these runs, and not the last one."""
    controllers = LossyControllers()
    directory = Directory(controllers)
    assert directory.starts("1") == ""

    class Silent(LossyControllers):
        def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
            if isinstance(change, RegisterReplica) and change.run == "2":
                controllers.groups.apply(change)
            done(None if isinstance(change, RegisterReplica) else controllers.groups.apply(change))

    away = Directory(Silent(), directory.disk)
    for run in range(2, 200):
        assert away.starts(str(run)) == "no controller answers"
        assert directory.disk.size("replica-runs") < 64 * 20
    assert directory.starts("200") == ""
    assert directory.starts("201") == ""
    assert (directory.disk.read_all("replica-runs") or b"").split()[-1] == b"201"


def test_a_directory_is_known_to_controllers_with_an_older_copy_of_their_folders() -> None:
    """They know a process that has registered long ago, and a copy that has run apart since is still another directory."""
    controllers = LossyControllers()
    directory = Directory(controllers)
    assert directory.starts("1") == ""
    apart = directory.copy()
    assert directory.starts("2") == ""
    state = snapshot.snapshot(controllers.groups)
    assert [directory.starts(str(run)) for run in range(3, 30)] == [""] * 27
    controllers.groups = snapshot.restore(state)
    assert apart.starts("31") == GroupRefusal.COPIED.value
    assert directory.starts("30") == ""


def test_one_process_with_several_lives_notes_one_run() -> None:
    controllers = LossyControllers()
    directory = Directory(controllers)
    assert directory.starts("1") == ""
    assert directory.starts("1") == ""
    assert directory.disk.read_all("replica-runs") == b"1\n"


class KnownGroup(LossyControllers):
    """Controllers that know a group with an identity, and one replica of it.

    asked   changes that they were asked for
    """

    def __init__(self, identity: str) -> None:
        super().__init__()
        for change in (
            ApplyId("g", "c", 1, "somebody", "h:1"), RegisterReplica("g", "c", 1, "h:1", "log"),
            ElectLeader("g", asker=1, fresh=identity),
        ):  # fmt: skip
            assert self.groups.apply(change).refusal is None
        self.asked: list[GroupChange] = []

    def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        self.asked.append(change)
        done(self.groups.apply(change))


def directory_of(identity: str, controllers: Any) -> Directory:
    """A directory with number 1 in the group of this identity."""
    found = Directory(controllers)
    found.disk.replace("replica-node", b"a-secret 1\n")
    ReplicaIdentity(found.disk, cast(Any, FixedEntropy())).keep_group(identity)
    return found


def test_a_directory_of_another_group_asks_for_nothing_and_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The file of another cluster was copied: the same names, the same numbers, another log."""
    controllers = KnownGroup("ours")
    foreign = directory_of("theirs", controllers)
    before = {name: bytes(each.data) for name, each in foreign.disk.files.items()}
    assert foreign.starts("1", WRITTEN) == GroupRefusal.OTHER_GROUP.value
    assert controllers.asked == []
    assert {name: bytes(each.data) for name, each in foreign.disk.files.items()} == before
    assert foreign.strangers.count > 1
    told = [each.getMessage() for each in caplog.records if "refused, from 10.0.0.9:9878" in each.getMessage()]
    assert len(told) == 1


def test_an_empty_log_is_of_no_group() -> None:
    controllers = KnownGroup("ours")
    wiped = directory_of("theirs", controllers)
    assert wiped.starts("1", EMPTY) == ""
    registered = [each for each in controllers.asked if isinstance(each, RegisterReplica)]
    assert [each.identity for each in registered] == [""]


def test_a_log_says_at_its_registration_of_which_group_it_is() -> None:
    controllers = KnownGroup("ours")
    assert directory_of("ours", controllers).starts("1", WRITTEN) == ""
    registered = [each for each in controllers.asked if isinstance(each, RegisterReplica)]
    assert [each.identity for each in registered] == ["ours"]


@pytest.mark.parametrize("file", [b"", b"ours\n", b"ours 00000000\n", b"ours 4b1a28d8", b"\xff\xfe 12\n", b"x" * 300 + b" 1\n"])
def test_a_damaged_file_is_refused_by_name_and_nothing_is_asked_for(file: bytes, caplog: pytest.LogCaptureFixture) -> None:
    controllers = KnownGroup("ours")
    damaged = directory_of("ours", controllers)
    damaged.disk.replace("replica-group", file)
    why = damaged.starts("1", WRITTEN)
    assert why.startswith("the file replica-group in the data directory is damaged")
    assert controllers.asked == []
    assert damaged.disk.read_all("replica-group") == file
    assert damaged.strangers.count == 1
    assert sum("refused, from replica-group" in each.getMessage() for each in caplog.records) == 1


def test_the_identity_of_the_group_outlives_the_process() -> None:
    directory = directory_of("ours", KnownGroup("ours"))
    found = ReplicaIdentity(directory.disk, cast(Any, FixedEntropy()))
    assert (found.group, found.damage) == ("ours", "")
    assert not found.is_of_other("")
    assert not found.is_of_other("ours")
    assert found.is_of_other("theirs")


def test_an_empty_directory_gets_the_id_of_its_address_back_or_the_next_one_in_the_end() -> None:
    """The old one is known to be dead a while after the new process has begun; when it never is, the node comes anew."""
    for dies, wanted in ((True, 1), (False, 2)):
        controllers = LossyControllers()
        clock = VirtualClock()

        def register(token: int, enrolled: list[int], clock: VirtualClock = clock, of: Any = controllers) -> RegisteringState:
            identity = ReplicaIdentity(MemoryDisk(clock), SeededEntropy(token))
            place = ReplicaPlace("c", "g", identity, "10.0.0.1:1", False, Strangers(log, clock), lambda: NOTHING)
            return RegisteringState(place, lambda: EMPTY, cast(Any, of), clock, lambda own, _group: enrolled.append(own))

        first: list[int] = []
        state = register(1, first)
        state.start(state.why)
        clock.run_for(AGAIN_MS * 3)
        state.leave()
        again: list[int] = []
        state = register(2, again)
        state.start(state.why)
        clock.run_for(LOST_MS // 2)
        assert (first, again) == ([1], [])
        controllers.dead = (1,) if dies else ()
        clock.run_for(LOST_MS)
        assert again == [wanted]


def test_a_learner_that_was_promoted_and_is_still_set_to_be_one_goes_on_alone() -> None:
    controllers = LossyControllers()
    directory = Directory(controllers)
    assert directory.starts("1", learner=True) == ""
    group = controllers.groups.group("g")
    assert group is not None
    assert group.replicas[0].learner
    member = Directory(controllers)
    member.disk.replace("replica-node", b"other 0\n")
    assert member.starts("2") == ""
    assert controllers.groups.apply(ElectLeader("g", asker=2)).refusal is None
    group = controllers.groups.group("g")
    assert group is not None
    live = (ReplicaReport(1, "7", 1, 900),)
    assert controllers.groups.apply(PromoteLearner("g", 1, group.set_epoch, "g", live)).refusal is None
    assert directory.starts("3", learner=True) == ""
    group = controllers.groups.group("g")
    assert group is not None
    assert (group.replicas[0].learner, group.in_sync, group.leader) == (False, (1,), 0)


def test_the_newest_state_that_was_seen_outlives_the_process_and_is_of_one_group() -> None:
    directory = directory_of("ours", KnownGroup("ours"))

    def opened() -> ReplicaIdentity:
        directory.clock.run_for(1_000)
        return ReplicaIdentity(directory.disk, cast(Any, FixedEntropy()))

    known = opened()
    state = StoreGroup("c", "g", leader=1, leader_epoch=4, set_epoch=7, identity="ours")
    known.note_seen(state)
    assert (known.seen, opened().seen) == (StateSeen(4, 7), StateSeen(4, 7))
    for other in (
        replace(state, set_epoch=6), replace(state, leader=0, leader_epoch=5), replace(state, identity="theirs", set_epoch=9),
        replace(state, identity="", set_epoch=9), state,
    ):  # fmt: skip
        known.note_seen(other)
        assert (known.seen, opened().seen) == (StateSeen(4, 7), StateSeen(4, 7)), other
    for set_epoch in (8, 9, 10):
        known.note_seen(replace(state, set_epoch=set_epoch))
    assert (known.seen, opened().seen) == (StateSeen(4, 10), StateSeen(4, 10)), "while one is written, the last one waits"
    file = directory.disk.read_all("replica-seen") or b""
    for damaged in (b"", file[:-1], b"9" + file, b"\xff\xfe 12\n", b"-1 7 ours 00000000\n"):
        directory.disk.replace("replica-seen", damaged)
        assert opened().seen == NOTHING_SEEN, damaged
    directory.disk.replace("replica-seen", file)
    known.keep_group("theirs")
    assert (known.seen, opened().seen) == (NOTHING_SEEN, NOTHING_SEEN), "it was seen of another group"
