"""The settings of HTTP: table `[http]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Which hosts and web pages are served, and what senders of CloudEvents are told in the WebHook handshake.

    hosts             names that clients may address this node by, beside `advertise`, IP addresses, and names that nobody can
                      register (without a dot, or in `local`, `internal`, `test`, `localhost`); `*`: every name
    origins           web origins whose pages may send requests and read the answers, as `https://example.org`; `*`: every one.
                      Pages of this node itself always may
    webhook_origins   origins that may deliver events; `*`: all
    webhook_rate      requests a minute that the handshake allows a sender; 0: no bound
    cloudevents_03    True: events of CloudEvents 0.3 are accepted, and stored as events of 1.0
    """

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: Annotated[int, Meta(ge=0)] = 0
    cloudevents_03: bool = False
