"""What a person may set for HTTP: table `[http]` of the configuration file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields

from domain.errors import ConfigError
from protocols.adapter import Setting
from protocols.http.handler import Desk


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """What CloudEvents' webhooks are told (`docs/protocols/http.md`).

    webhook_origins   origins that may deliver; `*`: every one
    webhook_rate      requests a minute that one is told it may make; 0: no bound
    """

    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: int = 0


def read(options: Mapping[str, object]) -> HttpConfig:
    """Options -> config. Raises ConfigError."""
    known = [each.name for each in fields(HttpConfig)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {known}"
            raise ConfigError(f"http has no setting {name!r}; {hint}")
    origins = options.get("webhook_origins", ["*"])
    rate = options.get("webhook_rate", 0)
    if not isinstance(origins, list | tuple) or not all(isinstance(origin, str) for origin in origins):
        raise ConfigError("http.webhook_origins is a list of origins")
    if isinstance(rate, bool) or not isinstance(rate, int) or rate < 0:
        raise ConfigError("http.webhook_rate is a number of requests a minute, 0 for no bound")
    return HttpConfig(tuple(origins), rate)


def desk(setting: Setting) -> Desk:
    """What all handlers share. Raises ConfigError."""
    config = read(setting.options)
    return Desk(setting.wall_ms, config.webhook_origins, config.webhook_rate, authority=setting.authority)
