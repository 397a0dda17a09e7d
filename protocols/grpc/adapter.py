"""gRPC as the gateway knows it: an application on HTTP/2."""

from __future__ import annotations

from typing import final

from protocols.adapter import Peer, Setting
from protocols.grpc.application import GrpcApplication
from protocols.grpc.session import Sessions
from protocols.http2.application import Reply


@final
class GrpcFactory:
    """The service as the node knows it. Clients are shared over all connections."""

    name = "grpc"

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._sessions = Sessions()

    def open(self, reply: Reply, peer: Peer, now: int) -> GrpcApplication:
        """The service for a new connection."""
        return GrpcApplication(self._setting, self._sessions, reply, peer)
