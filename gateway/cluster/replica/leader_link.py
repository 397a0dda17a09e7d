"""A follower's connection to its leader, made again whenever it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from domain.ports import Clock, Entropy
from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from gateway.link.backoff import Backoff
from gateway.link.request import Sign
from gateway.link.stream import Stream
from gateway.link.wire import Dialer, UnreadableError
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.ticket import RequestError

REST_MS: Final = 100
"""Pause before the leader is dialled again, on average."""
log: Final = logging.getLogger("headgate.replica")


class FollowUser(Protocol):
    """What follows over the connection: `store.replication.following.Following`."""

    def connected(self, connection: LeaderLink) -> None:
        """There is a connection: send Follow."""

    def accepted(self, event: FollowAccepted) -> None:
        """The leader takes this follower."""

    def refused(self, event: FollowRefused) -> None:
        """The leader does not take this follower."""

    def bytes(self, event: LogBytes) -> None:
        """A part of the log."""

    def lost(self) -> None:
        """There is no connection any more."""


@final
class LeaderLink:
    """`store.replication.ports.LeaderConnection` over remoting: connections to one leader, one after the other."""

    def __init__(
        self, host: str, port: int, dialer: Dialer, clock: Clock, entropy: Entropy, sign: Sign | None, user: FollowUser,
        broke: Callable[[], None],
    ) -> None:  # fmt: skip
        """`broke` is called when a connection has ended that was there, or that could not be made."""
        self._broke = broke
        self._sign = sign
        self._user = user
        self._stream = Stream([(host, port)], dialer, clock, Backoff(REST_MS, REST_MS, entropy), self)
        self._dialog = FollowDialog(sign)
        self._why = ""

    def start(self) -> None:
        """Connect."""
        self._stream.connect()

    def send(self, command: Follow | LogHeld) -> None:
        """LeaderConnection.send."""
        if self._stream.open:
            dialog = self._dialog
            self._stream.write(dialog.follow(command) if isinstance(command, Follow) else dialog.held(command))

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """LeaderConnection.close: this connection ends, and another one is made soon."""
        if self._stream.begun:
            self._stream.drop()
            self._lost(reason, rest_ms)

    def end(self) -> None:
        """Connect no more."""
        self._stream.close()

    def opened(self) -> None:
        """WireUser.opened."""
        self._dialog = FollowDialog(self._sign)
        self._user.connected(self)

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        try:
            events = self._dialog.receive(data)
        except RequestError as error:
            raise UnreadableError(str(error)) from error
        for event in events:
            if not self._stream.open:
                return
            self._take(event)

    def _take(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        if isinstance(event, LogBytes):
            self._user.bytes(event)
            if self._stream.open:
                self._why = ""
        elif isinstance(event, FollowAccepted):
            self._user.accepted(event)
        else:
            self._user.refused(event)

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        self._lost(reason)

    def _lost(self, reason: str, rest_ms: int = 0) -> None:
        self._broke()
        self._user.lost()
        if reason != self._why:
            self._why = reason
            log.info("the leader at %s is not followed for now: %s", self._stream.where, reason)
        self._stream.retry(rest_ms)
