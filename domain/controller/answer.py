"""Answers to changes of store groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from domain.controller.group import StoreGroup


class GroupRefusal(Enum):
    """Reason for the refusal of a change or a request. The text is for people."""

    NOT_LEADING = "this controller does not lead: ask the one that does"
    INVALID = "a value of the request is out of its bounds"
    UNKNOWN_GROUP = "the store group is not known"
    NOT_REGISTERED = "the replica or its store group is not registered"
    ID_TAKEN = "the id is not the next one, or belongs to another node"
    TOO_MANY = "there are as many store groups, or replicas of one, as there can be"
    NOT_THE_LEADER = "the sender does not lead the store group"
    OLD_LEADER_EPOCH = "the leader epoch is another one by now"
    OLD_SET_EPOCH = "the SyncStateSet has changed in between"
    SAME_SET = "the SyncStateSet would not change"
    LEADER_MISSING = "the new SyncStateSet lacks the leader"
    NOT_A_REPLICA = "who would join is not registered with this log, or is a learner"
    NOT_ALIVE = "who would join is not alive"
    LEADER_VALID = "the leader is alive"
    NO_CANDIDATE = "no member of the SyncStateSet is alive: nobody leads"
    ELECTION_FAILED = "no member of the SyncStateSet that was asked for is alive"
    ALIVE = "a replica that would be removed is alive, or leads"
    NOT_TYPED = "the name of the store group is not written once more as it is"
    MEMBER_COMES_BACK = "a member of the SyncStateSet is there: an election loses nothing, ask for that"
    OLD_BOOK = "the controllers have changed in between"
    LAST_MEMBER = "no replica would remain that has all records"
    FORGOTTEN = (
        "a replica has a log that was in an election of which these controllers do not know: they have lost their folders, "
        "have an older copy of them, or are those of another cluster. An operator says with whose log the group goes on: "
        "headgate cluster restore-controllers"
    )
    HAS_MEMBERS = "the store group has had an election: use move, or recover"
    COPIED = (
        "another process has registered with a copy of this data directory, and may have acknowledged what this copy lacks: "
        "start that one, or remove the replica (headgate cluster remove): this copy then comes back as a new one"
    )
    OTHER_GROUP = (
        "the log of this replica is of another store group, which has the same name: nothing was changed. If this node is of "
        "another cluster, correct replication.controllers; if it shall take this group's log, give it an empty directory "
        "(--data); if this group was begun by mistake, remove it (headgate cluster remove GROUP --all --even-living) and "
        "restore the other one (headgate cluster restore-controllers GROUP)"
    )
    TOO_FEW_FENCED = (
        "the leader is deposed, and too few members of the SyncStateSet have said since then how far their logs go: the next "
        "one is elected as soon as they have"
    )
    BAD_ACKS = (
        "acks is not possible: it is at least min_in_sync, so that a send that is acknowledged is on as many replicas as "
        "promised, and at most the number of replicas that can be in sync"
    )
    OLD_VERSION = (
        "a controller or a replica of this group runs an earlier version, which does not know the setting: upgrade all of "
        "them first"
    )
    ACKS_IN_FORCE = (
        "not all members of the SyncStateSet hold what is acknowledged (acks is below their number), so that this member may "
        "not leave the set by itself: wait until the leader has left it out, or set acks to 0 before"
    )
    RUNS_ELSEWHERE = "another process with a copy of this data directory is alive: one of them has to stop"


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """The result of one change.

    refusal   None: the change was made
    group     the store group as it is now; None when it is not known, or no more
    """

    refusal: GroupRefusal | None
    group: StoreGroup | None
