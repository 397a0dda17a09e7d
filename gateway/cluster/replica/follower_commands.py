"""Commands of other replicas: following this one, and reading parts of its log for repair."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.replication.message import (
    STRANGE,
    Follow,
    FollowAccepted,
    FollowRefusal,
    FollowRefused,
    LogBytes,
    LogHeld,
    LogPart,
    LogPartRefused,
    PartRefusal,
    ReadLog,
)
from domain.replication.ports import PartRefusedError
from gateway.cluster.replica.registering_state import ReplicaPlace
from gateway.cluster.replica.term_owner import TermOwner
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from store.replication.repairing import RepairCounts

log: Final = logging.getLogger("headgate.replica")


@final
class ConnectedFollower:
    """`store.replication.ports.FollowerConnection` over a client's connection."""

    def __init__(self, connection: ClientConnection, place: ReplicaPlace) -> None:
        self._connection = connection
        self._place = place

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        """See FollowerConnection."""
        if isinstance(event, FollowRefused) and event.reason in STRANGE:
            place = self._place
            place.strangers.refused(place.group, self._connection.host, f"a follower: {event.reason.value}")
        elif isinstance(event, FollowAccepted):
            event.gates = self._place.gates
        self._connection.answer(event)

    def close(self, reason: str) -> None:
        """See FollowerConnection."""
        self._connection.driver.close()
        log.info("the connection of a follower is ended: %s", reason)


@final
class FollowerCommands:
    """The verbs Follow, LogHeld and ReadLog.

    _connections   connections that have sent Follow to this leader
    """

    def __init__(self, term: TermOwner, place: ReplicaPlace, repairs: RepairCounts, broke: Callable[[], None]) -> None:
        """`repairs`: counts the parts supplied to others; `broke`: called when the connection of a follower has ended."""
        self._term = term
        self._group = place.group
        self._place = place
        self._repairs = repairs
        self._broke = broke
        self._connections: dict[ClientConnection, ConnectedFollower] = {}
        self.verbs: Verbs = {Follow: self._follow, LogHeld: self._held, ReadLog: self._read}

    def _follow(self, connection: ClientConnection, command: Follow) -> None:
        leading = self._term.leading
        if leading is None:
            connection.answer(FollowRefused(command.ticket, FollowRefusal.NOT_LEADING, self._term.epoch))
            return
        follower = self._connections.get(connection)
        if follower is None:
            follower = self._connections[connection] = ConnectedFollower(connection, self._place)
            connection.on_close.append(lambda: self._lost(connection))
        leading.follow(follower, command)

    def _held(self, connection: ClientConnection, command: LogHeld) -> None:
        leading, follower = self._term.leading, self._connections.get(connection)
        if leading is not None and follower is not None:
            leading.held(follower, command)

    def _lost(self, connection: ClientConnection) -> None:
        leading, follower = self._term.leading, self._connections.pop(connection, None)
        self._broke()
        if leading is not None and follower is not None:
            leading.lost(follower)

    def _read(self, connection: ClientConnection, command: ReadLog) -> None:
        parts = self._term.parts
        if parts is None or command.group != self._group:
            reason = PartRefusal.NOT_OPEN if parts is None else PartRefusal.OTHER_GROUP
            connection.answer(LogPartRefused(command.ticket, reason))
            return
        try:
            data = parts.read_confirmed(command.position, command.end)
        except PartRefusedError as error:
            connection.answer(LogPartRefused(command.ticket, error.reason))
            return
        self._repairs.given += 1
        connection.answer(LogPart(command.ticket, data))
