"""The remoting adapter's own settings: table `[remoting]` of the configuration file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from domain.errors import ConfigError
from domain.limits import REMOTING_FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class RemotingConfig:
    """Bounds of one connection.

    frame_bytes_max     a longer frame closes the connection; at most 16 MiB
    frame_seconds       a frame that has begun has to be complete after this long
    idle_seconds        a connection without any traffic is closed after this long
    requests_max        unanswered requests, held polls included, before we stop reading
    pull_bytes_default  bytes of records in a pull reply when the client names no bound
    """

    frame_bytes_max: int = REMOTING_FRAME_BYTES_MAX
    frame_seconds: int = 10
    idle_seconds: int = 120
    requests_max: int = 16_384
    pull_bytes_default: int = 1024 * 1024


def read(options: Mapping[str, object]) -> RemotingConfig:
    """Options -> config. Raises ConfigError for an unknown name or a value that is no positive number within its bound."""
    known = [each.name for each in fields(RemotingConfig)]
    values: dict[str, int] = {}
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise ConfigError(f"remoting has no option {name!r}{hint}")
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ConfigError(f"remoting.{name} must be a positive whole number, not {value!r}")
        values[name] = value
    if values.get("frame_bytes_max", 0) > REMOTING_FRAME_BYTES_MAX:
        raise ConfigError(f"remoting.frame_bytes_max can be at most {REMOTING_FRAME_BYTES_MAX}")
    return RemotingConfig(**values)
