"""State of a replica for tools: its epochs, the end of its log, and its followers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from domain.command import TicketedCommand
from domain.controller.serving import ServingWord
from domain.event import TicketedEvent
from domain.replication.message import Era


@dataclass(frozen=True, slots=True)
class FollowerFound:
    """One follower, as its leader sees it.

    id        its number in the store group
    address   `host:port` at which clients read from it; where it serves none, that at which replicas reach it
    written   position up to which its log is written, as last said
    in_sync   True: it is in the SyncStateSet
    """

    id: int
    address: str
    written: int
    in_sync: bool


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica, now.

    own         its number in the store group, from 1 on; 0: it has none yet
    leads       True: it leads
    leader      `host:port` at which replicas reach the leader; "": it leads itself, or nobody is known to
    written     position behind the last byte of its log
    confirmed   position up to which it may serve
    eras        eras of its log, ascending
    followers   those that are connected, by their numbers; none at a follower
    confirming  of a leader: members of the SyncStateSet, itself included, that hold each confirmed record
    min_in_sync of a leader: members without which no append above `flushed` is taken
    acks        of a leader: as in StoreGroup; 0: all members confirm
    """

    own: int
    leads: bool
    leader: str
    written: int
    confirmed: int
    eras: Sequence[Era] = ()
    followers: Sequence[FollowerFound] = ()
    confirming: int = 0
    min_in_sync: int = 0
    acks: int = 0


class ServedReplica(Protocol):
    """The replica of this process, for the node that serves clients from its store."""

    def gates(self) -> Mapping[int, str]:
        """Number of each replica that may lead -> `host:port` at which it takes gateways, "" when it is not known now; empty:
        this replica does not lead."""

    def doors(self) -> Mapping[int, str]:
        """Number of each replica, learners too -> `host:port` at which it names the leader to gateways while it follows; "" and
        empty as in `gates`."""

    def serves(self, word: ServingWord | None) -> None:
        """The node serves clients, as `word` says, whose epoch is not read; None: it does not any more."""


class ReplicaView(ServedReplica, Protocol):
    """View of the replica of this process."""

    def state(self) -> ReplicaState:
        """The current state."""

    def readers(self) -> Mapping[int, str]:
        """Number of a replica -> `host:port` at which it serves readers, of those that follow this leader now."""

    def reader_for(self, position: int, behind_bytes: int) -> int:
        """A replica that serves readers and has more than `behind_bytes` of log behind `position`, each in turn; 0: there is
        none."""


@dataclass(slots=True)
class QueryReplica(TicketedCommand):
    """Query the replication of the store -> ReplicaFound (RocketMQ codes 907 and 1007)."""


@dataclass(slots=True)
class ReplicaFound(TicketedEvent):
    """State of the replication of the store. The fields are those of ReplicaState.

    replicated   False: this store keeps its log alone, and only `written` is known
    eras         (epoch, begin), ascending
    """

    replicated: bool
    own: int
    leads: bool
    leader: str
    written: int
    confirmed: int
    eras: list[tuple[int, int]] = field(default_factory=list)
    followers: list[FollowerFound] = field(default_factory=list)
