"""A store group as the controller knows it: its replicas, its leader and its SyncStateSet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

FIRST_ID: Final = 1
"""Id of the first replica of a group. Ids ascend and are not given twice in the life of a group."""
NOBODY_LEADS: Final = 0
"""In place of a leader's id."""
UNKNOWN: Final = -1
"""In place of an epoch or a position that nobody has said."""
PRIORITY_LAST: Final = 0x7FFFFFFF
"""Election priority of a replica that has none. The controller that leads adds the replica's Fitness (health.py)."""
GROUPS_MAX: Final = 1_024
REPLICAS_MAX: Final = 64
"""Replicas of one group, learners included."""
TEXT_BYTES_MAX: Final = 255
"""Bytes of a name, an address or an incarnation."""
NUMBER_MAX: Final = (1 << 63) - 1
EPOCH_SAID_MAX: Final = 1 << 62
"""An epoch of a log above this one is not believed: those of later leaders have to be higher than it."""


def quorum(acks: int, members: int) -> int:
    """How many of `members` hold each confirmed record; `acks` as in StoreGroup."""
    return min(acks or members, members)


def differ(one: str, other: str) -> bool:
    """True for two identities, of groups or of processes, that are known and not the same; "": an earlier version says none."""
    return one != other and "" not in (one, other)


class StateSeen(NamedTuple):
    """The newest state with a leader that a replica has seen of its group. Both numbers only ascend.

    A SyncStateSet may change without an election: controllers that know an older one of the same epoch have an older copy.
    """

    leader_epoch: int = 0
    set_epoch: int = 0


NOTHING_SEEN: Final = StateSeen()


class SetMember(NamedTuple):
    """A member of a SyncStateSet.

    incarnation   identity of its log when it joined. A replica with another one is not this member.
    """

    id: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """Last report of a live replica.

    epoch         leader epoch of the newest record of its log; UNKNOWN: not reported
    position      end of its log in bytes; UNKNOWN: not reported
    priority      a lower one is preferred among equal logs; PRIORITY_LAST and above: by its Fitness, whatever the logs
    fence         leader epoch of a group without a leader, from which on the replica takes bytes of no leader: its log stays as
                  it is reported here until it learns of a newer epoch. 0: it follows, or leads; UNKNOWN: an earlier version
    seen          newest state of the group that the replica has seen; NOTHING_SEEN: none, or an earlier version
    """

    id: int
    incarnation: str
    epoch: int = UNKNOWN
    position: int = UNKNOWN
    priority: int = PRIORITY_LAST
    fence: int = UNKNOWN
    seen: StateSeen = NOTHING_SEEN

    @property
    def member(self) -> SetMember:
        """The replica, with the log that it reports, as a member of a SyncStateSet."""
        return SetMember(self.id, self.incarnation)


@dataclass(frozen=True, slots=True)
class StoreReplica:
    """One replica of a group.

    id            its number in the group, from FIRST_ID on
    node           text by which the node proves that the id is its own
    address        host:port
    incarnation    identity of its log; "": it has an id and has not registered
    learner        True: it gets the log and never joins the SyncStateSet
    epoch          leader epoch of the newest record, as last reported; UNKNOWN: not reported
    position       end of its log in bytes, as last reported; UNKNOWN: not reported
    continues_log  a log of this replica that was in the SyncStateSet, and all of whose flushed records are in the present one;
                   "": there is none
    run            random text of the process that has registered last; "": not reported
    identity       identity of the store group in its data directory, as last registered; "": none, or not reported
    """

    id: int
    node: str
    address: str
    incarnation: str = ""
    learner: bool = False
    epoch: int = UNKNOWN
    position: int = UNKNOWN
    continues_log: str = ""
    run: str = ""
    identity: str = ""

    @property
    def member(self) -> SetMember:
        """The replica as a member of a SyncStateSet."""
        return SetMember(self.id, self.incarnation)


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """A store group.

    name           what Apache calls the broker name
    replicas       by id, ascending
    leader         id of the leader, or NOBODY_LEADS; a leader is in `members`
    leader_epoch   ascends with every change of `leader`
    members        the SyncStateSet by id, ascending; empty until the first election, and never after it
    set_epoch      ascends with every change of `members`, and at every election
    least          members that a send above `flushed` needs, set by an operator; 0: `min_in_sync` follows the replicas
    identity       random text, which no other group of the name has; "": none, before the first election and in a group of the
                   version before
    order          index in the log of the controllers up to which a controller had applied it when it reported this state; a
                   state of a higher one is newer. 0: not reported
    acks           each confirmed record is held by this number of `members`, or by all of them if they are fewer; 0: by all.
                   Changed by the leader alone, as `members` are
    wanted_acks    the number that an operator has asked for; the leader brings `acks` there. 0: all
    """

    cluster: str
    name: str
    next_id: int = FIRST_ID
    replicas: tuple[StoreReplica, ...] = ()
    leader: int = NOBODY_LEADS
    leader_epoch: int = 0
    members: tuple[SetMember, ...] = ()
    set_epoch: int = 0
    least: int = 0
    identity: str = ""
    order: int = field(default=0, compare=False)
    acks: int = 0
    wanted_acks: int = 0

    def replica(self, replica_id: int) -> StoreReplica | None:
        """The replica with this id, None when there is none."""
        return next((each for each in self.replicas if each.id == replica_id), None)

    def address(self, replica_id: int) -> str:
        """The address of a replica; "" when there is none."""
        found = self.replica(replica_id)
        return found.address if found is not None else ""

    def is_in_sync(self, replica: StoreReplica) -> bool:
        """True when the replica, with the log that it has now, is in the SyncStateSet."""
        return replica.member in self.members

    @property
    def in_sync(self) -> tuple[int, ...]:
        """Ids of the SyncStateSet, ascending."""
        return tuple(each.id for each in self.members)

    @property
    def strength(self) -> int:
        """Number of replicas that can be in sync: those that are no learners."""
        return sum(not each.learner for each in self.replicas)

    @property
    def min_in_sync(self) -> int:
        """Members that a send above `flushed` needs: 1 of two replicas, 2 of three and more, unless set otherwise."""
        return self.least or (1 if self.strength <= 2 else 2)

    @property
    def one_disk_note(self) -> str:
        """What the default of two replicas costs, text for people; "": it is another number, or set by an operator."""
        if self.least or self.strength != 2:
            return ""
        return (
            "of two replicas one in sync is enough for sends (min_in_sync 1, the default): while the other one is away, what "
            "is acknowledged is on one disk alone, and is lost with it. To have sends refused then: headgate cluster set "
            f"{self.name} --min-in-sync 2"
        )

    @property
    def acks_are_possible(self) -> bool:
        """True when the wanted number of members is 0, or from `min_in_sync` to the number of replicas that are no learners."""
        return not self.wanted_acks or self.min_in_sync <= self.wanted_acks <= self.strength

    @property
    def asked_acks(self) -> int:
        """The number to which the leader brings `acks`: never fewer than `min_in_sync`."""
        return self.wanted_acks and max(self.wanted_acks, self.min_in_sync)

    @property
    def confirming(self) -> int:
        """Number of members that hold each confirmed record."""
        return quorum(self.acks, len(self.members))

    @property
    def electing(self) -> int:
        """Number of members whose logs an election needs: one of them holds each confirmed record. 1, while all members do."""
        return len(self.members) - self.confirming + 1

    @property
    def is_forgotten(self) -> bool:
        """True when a replica has registered a log that was in an election of which the controllers do not know.

        They know of none, or of older ones than a log of this group: they have lost their folders, or have an older copy.
        """
        return any(self.is_newer(each, each.epoch) for each in self.replicas)

    def lacks_election(self, said: Iterable[ReplicaReport]) -> bool:
        """True when it is forgotten, or a replica has reported such a log, or that it has seen a newer SyncStateSet."""
        return self.is_forgotten or any(self.is_behind(each) for each in said)

    def is_behind(self, report: ReplicaReport) -> bool:
        """True when a report proves that this state is an older one."""
        replica = self.replica(report.id)
        if replica is None or replica.member != report.member:
            return False
        return self.is_newer(replica, report.epoch) or (self._is_own(replica) and self.is_older_than(report.seen))

    def is_older_than(self, seen: StateSeen) -> bool:
        """True when the newest state that a replica of this group has seen is a later one, of a SyncStateSet or an election
        that is not known. Before the first election no state proves anything."""
        return bool(self.members) and (self.newest_led, self.set_epoch) < seen <= (EPOCH_SAID_MAX, NUMBER_MAX)

    def is_newer(self, replica: StoreReplica, epoch: int) -> bool:
        """True when the log of `replica`, whose newest record is of `epoch`, was in an election of this group after the newest
        one that is known. A log that neither is a member nor says that it is of this group proves nothing. An epoch in which
        nobody leads has no records."""
        if not self.members:
            return epoch > 0
        return self._is_own(replica) and self.newest_led < epoch <= EPOCH_SAID_MAX

    def _is_own(self, replica: StoreReplica) -> bool:
        return replica.member in self.members or (bool(self.identity) and replica.identity == self.identity)

    @property
    def newest_led(self) -> int:
        """The newest epoch in which somebody led, or may have."""
        return self.leader_epoch if self.leader else self.leader_epoch - 1

    @property
    def lacking(self) -> tuple[int, ...]:
        """Ids of the replicas that are no learners and are not in the SyncStateSet."""
        return tuple(each.id for each in self.replicas if not each.learner and not self.is_in_sync(each))

    @property
    def is_below_strength(self) -> bool:
        """True while a replica that is no learner is not in the SyncStateSet."""
        return bool(self.lacking)
