"""A store group under seeds: replicas with logs, a controller that decides, messages that come late or never.

The replicas keep the rules of replication: a record counts once every member of the SyncStateSet, or `acks` of them, have
flushed it, those that are being added included; a follower cuts to the last common (epoch, end) and refuses an older epoch. So
what is lost here is lost by the controller. The checks run after each step; a broken one is an AssertionError.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random

from controller.groups import command, snapshot
from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import AlterSet, ApplyId, ElectLeader, GroupChange, RecoverGroup, RegisterReplica, SetAcks
from domain.controller.group import ReplicaReport, SetMember, StoreGroup, quorum
from store.replication.held import Quorum

GROUP, CLUSTER = "broker-a", "c"

NO_GROUP = StoreGroup(CLUSTER, GROUP)

Record = tuple[int, int]
"""(leader epoch, number of the record)."""


@dataclass
class ModelReplica:
    """One replica and its disk.

    log          records
    flushed      how many of them survive a power failure
    lives        incarnations that it has had
    continues    the one before, when its flushed records were kept
    seen         highest leader epoch that it has followed or led in
    epoch        epoch that it leads in; 0: it follows
    held         where its log ended when it began to lead: any of that may have been acknowledged before
    view         SyncStateSet and its epoch, as the leader knows them
    asked        sets of its requests that have no definite answer, with the set epoch of the request
    matched      what members have flushed, as the leader knows it
    fence        as in ReplicaReport
    """

    id: int
    log: list[Record] = field(default_factory=list)
    flushed: int = 0
    lives: int = 1
    continues: str = ""
    up: bool = True
    seen: int = 0
    epoch: int = 0
    held: int = 0
    view: StoreGroup = NO_GROUP
    asked: list[tuple[Quorum, int]] = field(default_factory=list)
    matched: dict[SetMember, int] = field(default_factory=dict)
    fence: int = 0

    @property
    def incarnation(self) -> str:
        return f"{self.id}.{self.lives}"

    @property
    def member(self) -> SetMember:
        return SetMember(self.id, self.incarnation)

    def report(self) -> ReplicaReport:
        return ReplicaReport(self.id, self.incarnation, self.log[-1][0] if self.log else 0, len(self.log), self.id, self.fence)

    def end_of(self, epoch: int) -> int:
        """Where the records of an epoch, and of all before it, end."""
        return sum(each[0] <= epoch for each in self.log)

    def confirmed(self) -> int:
        """How far a leader may acknowledge."""
        counted = [Quorum(self.view.members, self.view.acks), *(each for each, _ in self.asked)]
        return min(map(self.held_by, counted))

    def held_by(self, counted: Quorum) -> int:
        """How far enough of these members have flushed the log: with a record of this epoch when they are not all."""
        held = sorted((self.matched.get(each, 0) for each in {*counted.members, self.member}), reverse=True)
        needed = quorum(counted.acks, len(held))
        end = min(held[needed - 1], self.matched.get(self.member, 0))
        return end if end > self.held else held[-1]


class GroupModel:
    """One run. `step` does one thing by chance and checks everything."""

    def __init__(self, seed: int, replicas: int = 3, recovers: bool = False, acks: bool = False) -> None:
        """`recovers`: an operator gives up SyncStateSets now and then, none of whose members is there. `acks`: an operator
        changes the number of members that confirm."""
        self.random = Random(seed)
        self.groups, self.mirror = StoreGroups(), StoreGroups()
        self.replicas = [ModelReplica(number) for number in range(1, replicas + 1)]
        self.requests: list[AlterSet] = []
        self.acknowledged: list[Record] = []
        self.leaders: dict[int, int] = {}
        self.records = 0
        self.elections = self.recoveries = 0
        self.recovers = recovers
        self.acks = acks
        self.partial = 0
        self.reports: dict[int, ReplicaReport] = {}
        self.given_up = 0
        for each in self.replicas:
            self.apply(ApplyId(GROUP, CLUSTER, each.id, f"node-{each.id}", f"host-{each.id}:1"))
            self.start(each)
        if acks:
            self.apply(SetAcks(GROUP, 2))

    @property
    def group(self) -> StoreGroup:
        found = self.groups.group(GROUP)
        assert found is not None
        return found

    def of(self, replica_id: int) -> ModelReplica:
        return self.replicas[replica_id - 1]

    def apply(self, change: GroupChange) -> GroupAnswer:
        """Make a change as raft would: as bytes, on two state machines. Check what must hold of every change."""
        before = self.groups.group(GROUP)
        data = command.encode(change)
        read = command.decode(data)
        assert isinstance(read, GroupChange)
        answer = self.groups.apply(read)
        assert self.mirror.apply(read) == answer
        if self.random.random() < 0.1:
            self.mirror = snapshot.restore(snapshot.snapshot(self.groups))
        assert list(self.mirror) == list(self.groups)
        if before is not None:
            self.check_change(before, self.group, change)
        return answer

    def check_change(self, before: StoreGroup, after: StoreGroup, change: GroupChange) -> None:
        assert after.leader_epoch >= before.leader_epoch
        assert after.set_epoch >= before.set_epoch
        assert after.members == before.members or after.set_epoch > before.set_epoch
        if after.leader:
            assert self.leaders.setdefault(after.leader_epoch, after.leader) == after.leader, "two leaders in one epoch"
            leader = after.replica(after.leader)
            assert leader is not None
            assert leader.member in after.members, "the leader is not in its set"
        assert not before.members or after.members, "the set is empty"
        led = after.leader and (after.leader, after.leader_epoch) != (before.leader, before.leader_epoch)
        assert not led or isinstance(change, ElectLeader | RecoverGroup), "a leader without an election"
        if isinstance(change, ElectLeader) and after.leader_epoch > before.leader_epoch and after.leader and before.members:
            self.elections += 1
            alive = {SetMember(each.id, each.incarnation) for each in change.live}
            kept = set(before.members) & alive
            if before.electing > 1:
                self.partial += 1
                assert after.members in (before.members, (heir_of(after),)), "a set of which not all have all is smaller"
                return
            assert kept <= set(after.members), "an election left out members that are alive"
            present = {each.member for each in before.replicas}
            all_lost = not present & set(before.members)
            heir = before.replica(after.leader)
            assert all_lost or (heir is not None and heir.member in before.members), "who was not in the set was elected"

    def check(self) -> None:
        leader = self.group.leader
        if leader and self.of(leader).up and self.of(leader).member in self.group.members:
            log = self.of(leader).log
            assert log[: len(self.acknowledged)] == self.acknowledged, "an acknowledged record is lost"

    def start(self, each: ModelReplica) -> None:
        each.up, each.epoch, each.fence = True, 0, 0
        report = each.report()
        said = (report.epoch, report.position, each.continues)
        self.apply(RegisterReplica(GROUP, CLUSTER, each.id, f"host-{each.id}:1", each.incarnation, False, *said))

    def step(self) -> None:
        """One thing by chance."""
        choice = self.random.randrange(100)
        leaders = [each for each in self.replicas if each.up and each.epoch]
        ups = [each for each in self.replicas if each.up]
        downs = [each for each in self.replicas if not each.up]
        if choice < 72:
            if leaders:
                self.lead(self.random.choice(leaders))
        elif choice < 75:
            if ups:
                self.fail(self.random.choice(ups))
        elif choice < 81:
            if downs:
                self.start(self.random.choice(downs))
        elif choice < 88:
            if ups:
                self.learn(self.random.choice(ups))
        elif choice < 92:
            self.elect()
        elif self.requests:
            self.arrive(self.requests.pop(self.random.randrange(len(self.requests))))
        if self.acks and self.random.random() < 0.005:
            self.apply(SetAcks(GROUP, self.random.choice((0, 2, 2, 2, 3))))
        if self.recovers and self.random.random() < 0.02:
            self.recover()
        self.check()

    def lead(self, leader: ModelReplica) -> None:
        choice = self.random.randrange(10)
        if choice < 3:
            self.records += 1
            leader.log.append((leader.epoch, self.records))
        elif choice < 4:
            leader.flushed = len(leader.log)
            leader.matched[leader.member] = leader.flushed
        elif choice < 8:
            self.replicate(leader, self.random.choice(self.replicas))
        else:
            self.ask(leader)
        end = leader.confirmed()
        # What a leader of before has confirmed is lost with its set, whether or not it says so to a client afterwards.
        more = leader.epoch > self.given_up and end > len(self.acknowledged)
        if more and leader.log[: len(self.acknowledged)] == self.acknowledged:
            self.acknowledged = leader.log[:end]

    def replicate(self, leader: ModelReplica, follower: ModelReplica) -> None:
        if follower is leader or not follower.up or follower.seen > leader.epoch:
            return
        follower.seen, follower.epoch, follower.fence = leader.epoch, 0, 0
        shared = {each[0] for each in leader.log} & {each[0] for each in follower.log}
        newest = max(shared, default=0)
        common = min(leader.end_of(newest), follower.end_of(newest)) if newest else 0
        del follower.log[common:]
        follower.log += leader.log[common : common + self.random.randrange(1, 4)]
        follower.flushed = min(follower.flushed, common)
        if self.random.random() < 0.8:
            follower.flushed = len(follower.log)
        leader.matched[follower.member] = follower.flushed

    def ask(self, leader: ModelReplica) -> None:
        """Ask for another SyncStateSet: one less, or one more that has all that is confirmed. Late requests are repeated."""
        members, epoch = leader.view.members, leader.view.set_epoch
        other = self.random.choice(self.replicas)
        if other is leader:
            return
        least = max(leader.confirmed(), leader.held)
        if other.id in {each.id for each in members}:
            wanted = tuple(each for each in members if each.id != other.id)
            if self.acks and self.random.random() < 0.9:
                wanted = members  # only `acks` is brought where it is to be
        elif leader.matched.get(other.member, -1) >= least:
            wanted = (*members, other.member)
        else:
            return
        asked = Quorum(wanted, leader.view.asked_acks)
        if leader.view.electing > 1 and leader.held_by(asked) < least:
            return
        leader.asked.append((asked, epoch))
        request = AlterSet(GROUP, leader.id, leader.epoch, epoch, wanted, acks=asked.acks)
        self.requests.append(request)
        if self.random.random() < 0.3:
            self.requests.append(request)

    def arrive(self, request: AlterSet) -> None:
        answer = self.apply(request)
        if answer.refusal is None and self.random.random() < 0.7:
            self.learn(self.of(request.leader))

    def recover(self) -> None:
        """An operator wants a replica to lead. What is lost is what the members alone had."""
        members, epoch = self.group.members, self.group.set_epoch
        live = tuple(each.report() for each in self.replicas if each.up)
        change = RecoverGroup(GROUP, self.random.choice(self.replicas).id, epoch, GROUP, live)
        if self.apply(change).refusal is None:
            self.recoveries += 1
            self.given_up = self.group.leader_epoch - 1
            assert not any(each.up and each.member in members for each in self.replicas), "a member that is there was given up"
            winner = self.of(change.replica)
            log = winner.log[: winner.flushed]
            same = (kept == lost for kept, lost in zip(log, self.acknowledged, strict=False))
            self.acknowledged = self.acknowledged[: sum(1 for _ in takewhile(bool, same))]

    def learn(self, each: ModelReplica) -> None:
        """A replica reads what the controller has decided."""
        group = self.group
        if not each.up:
            return
        if group.leader != each.id or each.member not in group.members:
            if each.epoch and group.leader_epoch > each.epoch:
                each.epoch = 0
            if not group.leader and group.electing > 1 and group.leader_epoch >= each.seen:
                each.seen = each.fence = group.leader_epoch
            return
        if group.leader_epoch > each.seen:
            each.fence = 0
            each.seen = each.epoch = group.leader_epoch
            each.matched, each.asked, each.held = {each.member: each.flushed}, [], len(each.log)
        if group.leader_epoch == each.epoch:
            each.view = group
            each.asked = [asked for asked in each.asked if asked[1] == group.set_epoch]

    def fail(self, each: ModelReplica) -> None:
        """Kill, power failure with its log proven or not, or an empty disk."""
        each.up = False
        choice = self.random.randrange(4)
        if choice == 0 or (self.acks and self.random.random() < 0.8):
            return
        kept = [] if choice == 3 else each.log[: each.flushed]
        each.log, each.flushed = kept, len(kept)
        if choice >= 2:
            each.continues = each.incarnation if choice == 2 else ""
            each.lives += 1

    def report_of(self, each: ModelReplica) -> ReplicaReport:
        """Its last report: with `acks` it may be old."""
        known = self.reports.get(each.id)
        if known is None or known.incarnation != each.incarnation or not self.acks or self.random.random() < 0.6:
            self.reports[each.id] = each.report()
        return self.reports[each.id]

    def elect(self) -> None:
        live = tuple(self.report_of(each) for each in self.replicas if each.up and self.random.random() < 0.8)
        designated = self.random.choice((0, 0, 0, self.random.choice(self.replicas).id))
        asker = self.random.choice((0, self.random.choice(self.replicas).id))
        change = ElectLeader(GROUP, live, asker, designated, self.random.choice((-1, self.group.leader_epoch)))
        if self.group.electing > 1:
            epoch = self.group.leader_epoch
            fenced = tuple(each.id for each in change.live if each.fence == epoch)
            change = replace(change, leader_epoch=epoch, fenced=fenced)
        if self.group.electing > 1 and self.group.leader and self.random.random() < 0.5:
            return
        answer = self.apply(change)
        if self.group.electing > 1 and not self.group.leader:
            for each in self.replicas:
                if self.random.random() < 0.6:
                    self.learn(each)
            if self.random.random() < 0.5:
                self.elect()
            return
        if answer.refusal in (None, GroupRefusal.LEADER_VALID) and self.random.random() < 0.7:
            self.learn(self.of(self.group.leader))


def heir_of(group: StoreGroup) -> SetMember:
    """The leader as a member."""
    leader = group.replica(group.leader)
    assert leader is not None
    return leader.member


def run(seed: int, steps: int = 400, recovers: bool = False, acks: bool = False) -> GroupModel:
    """A run under a seed. Raises AssertionError when a check fails."""
    model = GroupModel(seed, recovers=recovers, acks=acks)
    for _ in range(steps):
        model.step()
    return model
