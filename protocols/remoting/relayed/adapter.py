"""The adapter of remoting in a gateway that relays it, in place of `protocols.remoting.adapter`."""

from __future__ import annotations

from typing import final

from protocols.adapter import Peer
from protocols.remoting.relayed.connection import RelayConnection
from protocols.remoting.settings import RemotingSettings
from protocols.setting import Setting


@final
class RelayAdapter:
    """The adapter for all connections of a node.

    name  name of the protocol
    """

    def __init__(self, setting: Setting, config: RemotingSettings, checked: bool = False) -> None:
        """`checked`: the signatures of requests are checked here too, where access is controlled."""
        self.name = "remoting"
        self._setting = setting
        self._config = config
        self._authority = setting.authority if checked else None

    def connect(self, peer: Peer, now: int) -> RelayConnection:
        """The state of a new connection. The protocol has no handshake."""
        return RelayConnection(self._setting, self._config, self._authority, peer, now)
