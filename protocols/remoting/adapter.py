"""The adapter of RocketMQ remoting, a stream protocol, and its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.refusal import Ending, Reason
from protocols.adapter import Peer
from protocols.declaration import Declaration, Listener
from protocols.remoting.client import NodeInfo
from protocols.remoting.clients.header_cache import HeaderCache
from protocols.remoting.connection import RemotingConnection
from protocols.remoting.recognition import begins, without_tls
from protocols.remoting.settings import RemotingSettings
from protocols.setting import Setting

WORDS: Final[Mapping[str, Reason | None]] = {
    "frame-length": Ending.MALFORMED,
    "frame-header": Ending.MALFORMED,
}
"""The words for refusals and closed connections -> their reasons."""
VIP: Final = ("remoting", -2)
"""From the port of a broker to that of its VIP channel, as Java clients with `vipChannelEnabled` compute it (MixAll)."""


@final
class RemotingAdapter:
    """The adapter for all connections of a node."""

    def __init__(self, setting: Setting, config: RemotingSettings) -> None:
        self.name = "remoting"
        self._node = NodeInfo(setting, config)
        self._header_cache = HeaderCache()

    def connect(self, peer: Peer, now: int) -> RemotingConnection:
        """The state of a new connection. The protocol has no handshake."""
        return RemotingConnection(self._node, peer, self._header_cache, now)


PROTOCOL: Final = Declaration(
    "remoting",
    settings=RemotingSettings,
    stream=RemotingAdapter,
    listeners=(
        Listener("nameserver", 9876, "RocketMQ nameserver", ("remoting",), place=10),
        Listener("controller", 9878, "RocketMQ controller", ("remoting",), place=15),
        Listener("replication", 10912, "followers of a store group", ("remoting",), place=25),
        Listener("readers", 10913, "readers of a replica that follows", ("remoting",), place=26, resets=True),
        Listener("remoting", 10911, "RocketMQ remoting", ("remoting",), place=20, store_host=True, resets=True),
        Listener("vip", 10909, "RocketMQ remoting, VIP channel", ("remoting",), place=21, resets=True, beside=VIP),
    ),
    rank=60,
    begins=begins,
    without_tls=without_tls,
    words=WORDS,
)
