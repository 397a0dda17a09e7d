"""The settings of remoting: table `[remoting]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from domain.limits import REMOTING_FRAME_BYTES_MAX

Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class RemotingConfig:
    """Bounds of one connection.

    frame_bytes_max     a longer frame closes the connection; at most 16 MiB
    frame_seconds       a frame that has begun has to be complete after this long
    idle_seconds        a connection without any traffic is closed after this long
    requests_max        unanswered requests, held polls included, before we stop reading
    pull_bytes_default  bytes of records in a pull reply when the client names no bound
    """

    frame_bytes_max: Annotated[int, Meta(ge=1, le=REMOTING_FRAME_BYTES_MAX)] = REMOTING_FRAME_BYTES_MAX
    frame_seconds: Count = 10
    idle_seconds: Count = 120
    requests_max: Count = 16_384
    pull_bytes_default: Count = 1024 * 1024
