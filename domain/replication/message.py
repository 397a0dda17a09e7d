"""Messages between a follower and its leader over one connection, which the follower opens.

follower                                        leader
Follow            -->
                  <--  FollowAccepted, or FollowRefused
LogHeld              -->  (often)
                  <--  LogBytes  (often; also without bytes, as a sign that the leader lives)

Over other connections, a replica requests parts of the log from any other one, to repair damage in its own:

ReadLog           -->
                  <--  LogPart, or LogPartRefused
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from domain.command import Command, TicketedCommand
from domain.event import Event, TicketedEvent

PART_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one LogPart, unless a single batch is larger."""
ERAS_MAX: Final = 4_096
"""Eras of a log that a follower reports at most, the newest ones. A log with more eras after the cut is restarted."""


class Era(NamedTuple):
    """The part of a log that the leader of one epoch has written.

    begin   position where it begins: the end of the last batch of an older epoch
    writer  incarnation of the log that wrote it; 0: unknown. One history has one writer in an epoch
    """

    epoch: int
    begin: int
    writer: int = 0


class FollowRefusal(Enum):
    """Reason why a replica accepts no follower. The text is for people."""

    NOT_LEADING = "this replica does not lead the store group"
    OTHER_EPOCH = "this replica leads in another epoch"
    UNKNOWN_REPLICA = "the controllers do not know this replica, or know it with another log"
    TOO_MANY = "as many replicas follow as can"
    OTHER_PROCESS = (
        "the leader has heard of another process of this replica, and asks the controllers which one registered last"
    )
    OTHER_GROUP = (
        "the log is of another store group, which has the same name: nothing was changed. Stop this node, and correct "
        "replication.controllers, or give it an empty directory (--data) if it shall take the log of the leader"
    )
    OTHER_HISTORY = (
        "the log and that of the leader are two histories whose epochs have equal numbers: nothing was changed. Look which of "
        'them is complete (docs/cluster.md, "Another history"); a node whose log is not needed gets an empty directory (--data)'
    )


STRANGE: Final = frozenset({FollowRefusal.OTHER_GROUP, FollowRefusal.OTHER_HISTORY})
"""Refusals of a follower that is of another store group or history: it does not come in by trying again."""


@dataclass(slots=True)
class Follow(TicketedCommand):
    """A replica wants to follow -> FollowAccepted or FollowRefused.

    incarnation   identity of its log
    epoch         leader epoch in which it wants to follow: the newest that it knows
    eras          eras of its log, ascending, at most ERAS_MAX of the newest
    first         position of the first byte that it has
    end           position behind its last whole batch
    serves        `host:port` at which it serves readers while it follows; "": nowhere
    run           random text of its process; "": it does not say
    gates         `host:port` at which it takes gateways when it leads; "": it does not say
    identity      identity of the store group of its log; "": it has none, or does not say
    """

    group: str
    replica: int
    incarnation: int
    epoch: int
    eras: tuple[Era, ...]
    first: int
    end: int
    serves: str = ""
    run: str = ""
    gates: str = ""
    identity: str = ""


@dataclass(slots=True)
class FollowAccepted(TicketedEvent):
    """The answer to Follow: records come from now on.

    cut     position behind the last batch that both logs have: the follower cuts its log there. Below `first`, or -1: the
            logs have no common part that could be continued, and the follower restarts its log at `first`
    first   position of the first byte that the leader has
    common  of logs that cannot be continued: up to where the leader had the same log, before retention deleted it; -1: nowhere,
            or the leader does not say
    last    position of the last batch before `cut`, which the follower compares with its own before it cuts; -1: unknown, or
            the leader does not say
    checksum  CRC-32 of that batch, as stored in it
    gates   `host:port` at which the leader takes gateways; "": it does not say
    """

    epoch: int
    cut: int
    first: int
    common: int = -1
    last: int = -1
    checksum: int = 0
    gates: str = ""


@dataclass(slots=True)
class FollowRefused(TicketedEvent):
    """The answer to Follow: no.

    epoch   newest leader epoch that the other replica knows
    """

    reason: FollowRefusal
    epoch: int


@dataclass(slots=True)
class LogBytes(Event):
    """A part of the leader's log. No answer; ticket None.

    position    where it begins: where the last one ended
    confirmed   position up to which all members of the SyncStateSet have the log: the follower applies it up to there
    first       position of the first byte that the leader keeps: the follower deletes nothing behind it
    data        whole batches, fillers and gaps; b"": a sign that the leader lives
    question    number of a question: does the follower accept the leader's epoch? Its next LogHeld answers; 0: none
    """

    ticket: None
    epoch: int
    position: int
    confirmed: int
    first: int
    data: bytes
    question: int = 0


@dataclass(slots=True)
class LogHeld(Command):
    """Progress of a follower. No answer.

    epoch     leader epoch in which it follows
    written   position up to which its log is written
    synced    position up to which it is durable
    has_room  False: it has no room for messages, or does not know yet: it should not be asked to lead
    answers   number of the newest question that it has received, each of which it answers with yes; 0: none since the last one,
              or it is of a version that answers none
    """

    epoch: int
    written: int
    synced: int
    has_room: bool = True
    answers: int = 0


class PartRefusal(Enum):
    """Reason why a replica refuses a part of its log. The text is for people."""

    NOT_OPEN = "this replica has no open log"
    OTHER_GROUP = "this replica is of another store group"
    NOT_CONFIRMED = "this replica does not know yet that all members have it"
    GONE = "this replica has deleted it"
    DAMAGED = "this replica cannot read it"


@dataclass(slots=True)
class ReadLog(TicketedCommand):
    """A replica wants a part of the log whose own copy is damaged -> LogPart or LogPartRefused.

    position   where the part begins: at a batch or a filler
    end        position behind its last byte
    """

    group: str
    position: int
    end: int


@dataclass(slots=True)
class LogPart(TicketedEvent):
    """The answer to ReadLog.

    data   whole batches and fillers from the position on, one at least, PART_BYTES_MAX unless one is larger; all of it is
           confirmed, and none of it lies behind the end that was asked for
    """

    data: bytes


@dataclass(slots=True)
class LogPartRefused(TicketedEvent):
    """The answer to ReadLog: no."""

    reason: PartRefusal
