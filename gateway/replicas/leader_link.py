"""A follower's connection to its leader, made again whenever it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy, Timer
from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from gateway.rocketmq.broker_request import Sign
from gateway.rocketmq.dialer import Dialer, Wire
from gateway.rocketmq.link import BrokerAnswerError
from protocols.remoting.replication.dialog import FollowDialog
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
        self._host = host
        self._port = port
        self._dialer = dialer
        self._clock = clock
        self._broke = broke
        self._entropy = entropy
        self._sign = sign
        self._user = user
        self._wire: _Connection | None = None
        self._timer: Timer | None = None
        self._closed = False
        self._why = ""

    def start(self) -> None:
        """Connect."""
        self._timer = None
        if not self._closed:
            wire = self._wire = _Connection(self, FollowDialog(self._sign))
            wire.wire = self._dialer.dial(self._host, self._port, wire)

    def send(self, command: Follow | LogHeld) -> None:
        """LeaderConnection.send."""
        if self._wire is not None:
            self._wire.send(command)

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """LeaderConnection.close: this connection ends, and another one is made soon."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop()
            self._ended(reason, rest_ms)

    def end(self) -> None:
        """Connect no more."""
        self._closed = True
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop()
        if self._timer is not None:
            self._timer.cancel()

    def opened(self) -> None:
        """The connection is there."""
        self._user.connected(self)

    def take(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        """The leader has said something."""
        if isinstance(event, LogBytes):
            self._user.bytes(event)
            if self._wire is not None:
                self._why = ""
        elif isinstance(event, FollowAccepted):
            self._user.accepted(event)
        else:
            self._user.refused(event)

    def lost(self, wire: _Connection, reason: str) -> None:
        """A connection has ended, or could not be made."""
        if wire is self._wire:
            self._wire = None
            self._ended(reason)

    def _ended(self, reason: str, rest_ms: int = 0) -> None:
        if self._closed:
            return
        self._broke()
        self._user.lost()
        if reason != self._why:
            self._why = reason
            log.info("the leader at %s:%s is not followed for now: %s", self._host, self._port, reason)
        if not self._closed:
            pause_ms = max(REST_MS, rest_ms) * (0.5 + self._entropy.random())
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + int(pause_ms * MILLISECOND_NS), self.start)


@final
class _Connection:
    """One connection: `gateway.rocketmq.dialer.WireUser`."""

    def __init__(self, link: LeaderLink, dialog: FollowDialog) -> None:
        self.wire: Wire | None = None
        self._link = link
        self._dialog = dialog
        self._dropped = False
        self._open = False

    def send(self, command: Follow | LogHeld) -> None:
        """Send one command."""
        if self.wire is not None and self._open:
            self.wire.write(self._dialog.follow(command) if isinstance(command, Follow) else self._dialog.held(command))

    def drop(self) -> None:
        """The link has no use for it any more."""
        if not self._dropped:
            self._dropped = True
            if self.wire is not None:
                self.wire.close()

    def opened(self) -> None:
        """WireUser.opened."""
        if not self._dropped:
            self._open = True
            self._link.opened()

    def received(self, data: bytes) -> None:
        """WireUser.received."""
        try:
            events = self._dialog.receive(data)
        except RequestError as error:
            raise BrokerAnswerError(str(error)) from error
        for event in events:
            if self._dropped:
                return
            self._link.take(event)

    def ended(self, reason: str) -> None:
        """WireUser.ended."""
        if not self._dropped:
            self._dropped = True
            self._link.lost(self, reason)
