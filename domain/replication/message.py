"""What a follower and its leader say to each other over one connection, which the follower makes.

follower                                        leader
Follow            -->
                  <--  FollowAccepted, or FollowRefused
LogHeld              -->  (often)
                  <--  LogBytes  (often; also without bytes, as a sign that the leader lives)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from domain.command import Command
from domain.event import Event

ERAS_MAX: Final = 4_096
"""Eras of a log that a follower names, the newest ones. A log with more of them behind the cut begins anew."""


class Era(NamedTuple):
    """The part of a log that the leader of one epoch has written.

    epoch   leader epoch
    begin   position where it begins: the end of the last batch of an older epoch
    """

    epoch: int
    begin: int


class FollowRefusal(Enum):
    """Why nobody can follow here. The text is for people."""

    NOT_LEADING = "this replica does not lead the store group"
    OTHER_EPOCH = "this replica leads in another epoch"
    UNKNOWN_REPLICA = "the controllers do not know this replica, or know it with another log"
    TOO_MANY = "as many replicas follow as can"


@dataclass(slots=True)
class Follow(Command):
    """A replica wants to follow -> FollowAccepted or FollowRefused.

    group         store group
    replica       id of the replica
    incarnation   identity of its log
    epoch         leader epoch in which it wants to follow: the newest that it has heard of
    eras          eras of its log, ascending, at most ERAS_MAX of the newest
    first         position of the first byte that it has
    end           position behind its last whole batch
    """

    ticket: object
    group: str
    replica: int
    incarnation: int
    epoch: int
    eras: tuple[Era, ...]
    first: int
    end: int


@dataclass(slots=True)
class FollowAccepted(Event):
    """The answer to Follow: records come from now on.

    epoch   leader epoch
    cut     position behind the last batch that both logs have: the follower cuts its log there. Below `first`, or -1: the
            logs have nothing in common that could be continued, and the follower begins anew at `first`
    first   position of the first byte that the leader has
    """

    ticket: object
    epoch: int
    cut: int
    first: int


@dataclass(slots=True)
class FollowRefused(Event):
    """The answer to Follow: no.

    epoch   newest leader epoch that the other replica knows
    """

    ticket: object
    reason: FollowRefusal
    epoch: int


@dataclass(slots=True)
class LogBytes(Event):
    """A part of the leader's log. No answer; ticket None.

    epoch       leader epoch
    position    where it begins: where the last one ended
    confirmed   position up to which all members of the SyncStateSet have the log: the follower applies it up to there
    first       position of the first byte that the leader keeps: the follower deletes nothing behind it
    data        whole batches, fillers and gaps; b"": a sign that the leader lives
    """

    ticket: None
    epoch: int
    position: int
    confirmed: int
    first: int
    data: bytes


@dataclass(slots=True)
class LogHeld(Command):
    """What a follower has. No answer.

    epoch     leader epoch in which it follows
    written   position up to which its log is written
    synced    position up to which it is durable
    """

    epoch: int
    written: int
    synced: int
