"""RocketMQ remoting as the gateway knows it: a stream protocol."""

from __future__ import annotations

from typing import final

from protocols.adapter import Peer
from protocols.remoting.client import Facts
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.send import Shapes


@final
class RemotingAdapter:
    """The protocol, for any number of connections."""

    def __init__(self, facts: Facts) -> None:
        self.name = "remoting"
        self._facts = facts
        self._shapes = Shapes()

    def connect(self, peer: Peer, now: int) -> RemotingConnection:
        """A new connection. There is no handshake: the first frame says whether it is one of ours."""
        return RemotingConnection(self._facts, peer, self._shapes, now)
