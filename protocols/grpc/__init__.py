"""RocketMQ 5's gRPC protocol: an application above HTTP/2."""

from __future__ import annotations

from protocols.adapter import Setting
from protocols.grpc.adapter import GrpcFactory


def create_application(setting: Setting) -> GrpcFactory:
    """The application `grpc` (entry point of group `gateway.applications`)."""
    return GrpcFactory(setting)
