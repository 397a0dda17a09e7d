"""The settings of HTTP: table `[http]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """What senders of CloudEvents are told in the WebHook handshake (`docs/protocols/http.md`).

    webhook_origins   origins that may deliver events; `*`: all
    webhook_rate      requests a minute that the handshake allows a sender; 0: no bound
    """

    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: Annotated[int, Meta(ge=0)] = 0
