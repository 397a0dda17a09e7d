"""Connection of a follower to its leader, with reconnects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.link.backoff import Backoff
from gateway.link.stream import Stream
from gateway.link.wire import UnreadableError
from protocols.remoting.nodes.replication.dialog import FollowDialog
from protocols.remoting.ticket import RequestError
from store.replication.following import Following

REST_MS: Final = 100
"""Average pause before a reconnect."""
log: Final = logging.getLogger("headgate.replica")


@final
class LeaderLink:
    """`store.replication.ports.LeaderConnection` over remoting: connections to one leader, one after the other."""

    def __init__(self, host: str, port: int, network: PeerNetwork, user: Following, broke: Callable[[], None]) -> None:
        """`broke`: called when a connection has ended or could not be made."""
        self._broke = broke
        self._sign = network.sign
        self._user = user
        self._stream = Stream([(host, port)], network.dialer, network.clock, Backoff(REST_MS, REST_MS, network.entropy), self)
        self._dialog = FollowDialog(network.sign)
        self._why = ""

    def start(self) -> None:
        """Open the first connection."""
        self._stream.connect()

    def send(self, command: Follow | LogHeld) -> None:
        """See LeaderConnection."""
        if self._stream.open:
            dialog = self._dialog
            self._stream.write(dialog.follow(command) if isinstance(command, Follow) else dialog.held(command))

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """See LeaderConnection. A new connection follows after a pause of `rest_ms` or more on average."""
        if self._stream.begun:
            self._stream.drop()
            self._lost(reason, rest_ms)

    def end(self) -> None:
        """Close without a reconnect."""
        self._stream.close()

    def opened(self) -> None:
        """See WireUser."""
        self._dialog = FollowDialog(self._sign)
        self._user.connected(self)

    def received(self, data: bytes) -> None:
        """See WireUser."""
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
        """See WireUser."""
        self._lost(reason)

    def _lost(self, reason: str, rest_ms: int = 0) -> None:
        self._broke()
        self._user.lost()
        if reason != self._why:
            self._why = reason
            log.info("the leader at %s is not followed for now: %s", self._stream.where, reason)
        self._stream.retry(rest_ms)
