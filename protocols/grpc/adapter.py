"""The adapter of gRPC, and its declaration: an application on HTTP/2."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Peer
from protocols.declaration import Declaration, Listener
from protocols.grpc.application import GrpcApplication
from protocols.grpc.node_settings import GrpcSettings
from protocols.grpc.session import Sessions
from protocols.http2.application import Reply
from protocols.setting import Setting


@final
class GrpcFactory:
    """Makes the application of each connection. All connections share one table of clients."""

    name = "grpc"

    def __init__(self, setting: Setting, config: GrpcSettings) -> None:
        self._setting = setting
        self._config = config
        self._sessions = Sessions()

    def open(self, reply: Reply, peer: Peer, now: int) -> GrpcApplication:
        """The application of a new connection."""
        return GrpcApplication(self._setting, self._config, self._sessions, reply, peer)


PROTOCOL: Final = Declaration(
    "grpc",
    settings=GrpcSettings,
    application=GrpcFactory,
    listeners=(Listener("grpc", 8081, "RocketMQ gRPC", ("http2",), label="grpc", place=30),),
    rank=35,
)
