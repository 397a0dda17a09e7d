"""The settings of remoting: table `[remoting]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from domain.limits import REMOTING_FRAME_BYTES_MAX

Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class RemotingSettings:
    """Bounds of one connection.

    frame_bytes_max     longest frame in bytes; a longer one closes the connection
    frame_seconds       time for a frame to arrive, from its first byte; a slower one closes the connection
    idle_seconds        a connection without bytes in either direction is closed after this time
    requests_max        unanswered requests of one connection, long polls included; beyond, its socket is not read
    pull_bytes_default  bytes of records in a pull reply when the request has no `maxMsgBytes`
    """

    frame_bytes_max: Annotated[int, Meta(ge=1, le=REMOTING_FRAME_BYTES_MAX)] = REMOTING_FRAME_BYTES_MAX
    frame_seconds: Count = 10
    idle_seconds: Count = 120
    requests_max: Count = 16_384
    pull_bytes_default: Count = 1024 * 1024
