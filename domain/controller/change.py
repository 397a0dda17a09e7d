"""Changes of store groups: what the controllers replicate. Each has all that its decision needs; time and chance have no part.

Every change is answered with a GroupAnswer; the refusals of each are named in its docstring. Values beyond the limits of
`domain/controller/group.py` are refused with INVALID.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.controller.group import UNKNOWN, ReplicaReport, SetMember

ANY_EPOCH: Final = -1
"""In place of an expected leader epoch: whatever it is."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The root of all changes."""

    group: str


@dataclass(frozen=True, slots=True)
class ApplyId(GroupChange):
    """A node takes an id. Repeated by the same node it changes nothing and succeeds.

    cluster   cluster of the group; the first id creates the group
    id        the next id of the group, or the one that the node has
    node      text by which the node proves that the id is its own
    address   host:port
    dead      replicas that were dead when the change was proposed. The id of one of them at the same address, which is not in
              the SyncStateSet, is given to the node: its directory is lost, and with it the text of before

    Refusals: ID_TAKEN, TOO_MANY.
    """

    cluster: str
    id: int
    node: str
    address: str
    dead: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterReplica(GroupChange):
    """A node with an id has started. A leader that starts again leads no more: what it had not synced may be gone.

    id            the replica
    address       host:port
    incarnation   identity of its log. Another one than before is another log: it is in no SyncStateSet until it joins.
    learner       True: the replica never joins
    epoch         leader epoch of the newest record; UNKNOWN: not said
    position      end of its log in bytes; UNKNOWN: not said
    continues     incarnation all of whose flushed records are in this log, as after a power failure; "" after any other loss
    run           random text of the process that has started; "": it does not say
    runs_before   runs of this data directory before it, as far as one of them may have registered last
    identity      identity of the store group in its data directory; "": it has none, or its log is empty
    fresh         random identity for a group with members that has none; the controller that leads draws it

    Refusals: NOT_REGISTERED; OTHER_GROUP, when `identity` is not that of the group; LAST_MEMBER, when the only member of the
    SyncStateSet wants to be a learner; ACKS_IN_FORCE, when another one wants to be, and not all members hold what is confirmed;
    COPIED, when a process has registered last that did not run in this data directory, and this log is that one's or continues
    it; RUNS_ELSEWHERE, while another process of the replica is alive.
    """

    cluster: str
    id: int
    address: str
    incarnation: str
    learner: bool = False
    epoch: int = UNKNOWN
    position: int = UNKNOWN
    continues: str = ""
    run: str = ""
    runs_before: tuple[str, ...] = ()
    identity: str = ""
    fresh: str = ""


@dataclass(frozen=True, slots=True)
class AlterSet(GroupChange):
    """The leader replaces the SyncStateSet.

    leader         id of the sender
    leader_epoch   epoch that it leads in
    set_epoch      epoch of the SyncStateSet that it replaces
    members        the new one. Who is new in it must be registered with this incarnation, alive, and no learner.
    dead           replicas that were not alive when the change was proposed
    acks           as in StoreGroup: number of new members that hold each confirmed record, by the word of the leader; 0: all

    Refusals: UNKNOWN_GROUP, NOT_THE_LEADER, OLD_LEADER_EPOCH, OLD_SET_EPOCH, SAME_SET, LEADER_MISSING, NOT_A_REPLICA,
    NOT_ALIVE.
    """

    leader: int
    leader_epoch: int
    set_epoch: int
    members: tuple[SetMember, ...]
    dead: tuple[int, ...] = ()
    acks: int = 0


@dataclass(frozen=True, slots=True)
class ElectLeader(GroupChange):
    """Elect a leader, unless the present one is alive and no other is designated.

    Where not all members hold what is confirmed, it takes two steps. The first one deposes the leader, and succeeds: members
    that have learned of it accept no leader. The second one elects, from their reports since.

    live           what the replicas that were alive when the change was proposed said of themselves
    asker          replica that asks for an election; 0: none does. In the first election of a group it counts as alive.
    designated     the only replica that may win; 0: any
    leader_epoch   refuse when this is not the leader epoch; ANY_EPOCH: do not look
    fresh          random identity for a group that has none, unless the winner has one; the controller that leads draws it
    fenced         those of `live` whose reports have the fence `leader_epoch`: their logs have not changed since
    keeps_dead     True: where fewer members than `min_in_sync` are alive, the dead stay in the SyncStateSet

    Refusals: NOT_REGISTERED, OLD_LEADER_EPOCH, LEADER_VALID, TOO_FEW_FENCED; NO_CANDIDATE, after which nobody leads when
    neither a replica nor an operator had asked; ELECTION_FAILED when one had; FORGOTTEN, when a replica has a log that was in
    an election of which these controllers do not know.
    """

    live: tuple[ReplicaReport, ...] = ()
    asker: int = 0
    designated: int = 0
    leader_epoch: int = ANY_EPOCH
    fresh: str = ""
    fenced: tuple[int, ...] = ()
    keeps_dead: bool = False


@dataclass(frozen=True, slots=True)
class CleanReplicas(GroupChange):
    """Remove replicas. With the last one the group goes.

    ids           replicas to remove; empty: the whole group
    live          replicas that were alive when the change was proposed
    even_living   True: remove replicas that are alive, too

    Refusals: UNKNOWN_GROUP, ALIVE; LAST_MEMBER, when replicas remained and none of them were in the SyncStateSet;
    ACKS_IN_FORCE, for a member while not all members hold what is confirmed.
    """

    ids: tuple[int, ...] = ()
    live: tuple[int, ...] = ()
    even_living: bool = False


@dataclass(frozen=True, slots=True)
class RecoverGroup(GroupChange):
    """An operator gives the SyncStateSet up, since no member of it comes back: a replica becomes its only member, and leads.

    What the members had and this replica lacks is lost, acknowledged or not. It is the only way to such an election.

    replica     the one that leads from then on: registered, alive, and no learner
    set_epoch   epoch of the SyncStateSet that is given up
    typed       the name of the group, which the operator has written once more
    live        what the replicas that were alive when the change was proposed said of themselves

    Refusals: UNKNOWN_GROUP; NOT_TYPED; OLD_SET_EPOCH; MEMBER_COMES_BACK, when an election finds a leader without it;
    NOT_A_REPLICA; NOT_ALIVE.
    """

    replica: int
    set_epoch: int
    typed: str
    live: tuple[ReplicaReport, ...] = ()


@dataclass(frozen=True, slots=True)
class PromoteLearner(GroupChange):
    """An operator gives the SyncStateSet up for a learner, as in another place: it is none from then on, and leads alone.

    What the members had and it lacks is lost, as with RecoverGroup, whose fields and refusals it has; OLD_VERSION besides, from
    the controller that leads.
    """

    replica: int
    set_epoch: int
    typed: str
    live: tuple[ReplicaReport, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundGroup(GroupChange):
    """An operator says with whose log a store group goes on whose newest election the controllers do not know.

    Its epoch is above those of all logs that have been registered. The group keeps its identity, or takes that of this log.

    replica   the leader, and the only member of the SyncStateSet: registered, alive, and no learner
    live      what the replicas that were alive when the change was proposed said of themselves
    fresh     random identity for a group that has none, and whose new leader has none; the controller that leads draws it.
              "": a controller of a version before is there, for which the group must not have had an election

    Refusals: UNKNOWN_GROUP; HAS_MEMBERS, when the newest election is known; NOT_A_REPLICA; NOT_ALIVE.
    """

    replica: int
    live: tuple[ReplicaReport, ...] = ()
    fresh: str = ""


@dataclass(frozen=True, slots=True)
class SetMinInSync(GroupChange):
    """Change how many members of the SyncStateSet a send above `flushed` needs.

    least   1 to REPLICAS_MAX; 0: as many as follow from the replicas

    Refusals: UNKNOWN_GROUP; BAD_ACKS, when fewer members would confirm.
    """

    least: int


@dataclass(frozen=True, slots=True)
class SetAcks(GroupChange):
    """Change how many members of the SyncStateSet confirm a record. The leader applies it as soon as it is safe.

    wanted   `min_in_sync` to the number of replicas that are no learners; 0: all members

    Refusals: UNKNOWN_GROUP; BAD_ACKS; OLD_VERSION, from the controller that leads.
    """

    wanted: int
