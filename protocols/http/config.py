"""What a person may set for HTTP, as the adapter's own table of the configuration file has it."""

from __future__ import annotations

from collections.abc import Mapping

from domain.errors import ConfigError
from protocols.adapter import Setting
from protocols.http.handler import Desk

_KEYS = ("webhook_origins", "webhook_rate")


def desk(setting: Setting) -> Desk:
    """`webhook_origins` (list of origins, default every one) and `webhook_rate` (a minute, 0: no bound). Raises ConfigError."""
    options: Mapping[str, object] = setting.options
    for key in options:
        if key not in _KEYS:
            raise ConfigError(f"http has no setting {key}; it has {', '.join(_KEYS)}")
    origins = options.get("webhook_origins", ["*"])
    rate = options.get("webhook_rate", 0)
    if not isinstance(origins, list | tuple) or not all(isinstance(origin, str) for origin in origins):
        raise ConfigError("http.webhook_origins is a list of origins")
    if isinstance(rate, bool) or not isinstance(rate, int) or rate < 0:
        raise ConfigError("http.webhook_rate is a number of requests a minute, 0 for no bound")
    return Desk(setting.wall_ms, tuple(origins), rate, authority=setting.authority)
