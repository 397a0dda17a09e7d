"""The settings of gRPC: table `[grpc]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """Bounds of the signatures of calls.

    signature_age_s  seconds by which `x-mq-date-time` of a signed call may differ from the node's clock, either way; 0: any
                     number. It is read as UTC unless it has an offset; most SDKs write local time, and 86400 takes all zones
    """

    signature_age_s: Annotated[int, Meta(ge=0, le=31_622_400)] = 0
