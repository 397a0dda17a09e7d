"""The settings of HTTP: table `[http]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from protocols.cloudevents.routes import ROUTES_MAX, EventRoute

Host = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[a-z0-9.:\-]+$")]


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Hosts and web pages that are served, and answers to senders of CloudEvents in the WebHook handshake.

    hosts             names that clients may address this node by, beside `advertise`, IP addresses, and names that nobody can
                      register (without a dot, or in `local`, `internal`, `test`, `localhost`); `*`: every name
    origins           web origins whose pages may send requests and read the answers, as `https://example.org`; `*`: every one.
                      Pages of this node itself always may
    webhook_origins   origins that may deliver events; `*`: all
    webhook_rate      requests a minute that the handshake allows a sender; 0: no bound
    webhook_tls       True: deliveries of WebHooks and handshakes from other machines use TLS, as WebHook 2.1 says. They have
                      `WebHook-Request-Origin`, or a token in the query; other events are taken as the port takes them
    webhook_callbacks  hosts, in lower case, that consent is sent to when a handshake names a callback there; with it, the
                      answer to the handshake has none
    event_routes      `[[http.event_routes]]`: rules that choose the topic of events sent to `/`, in the order in which they are
                      tried; without any, nothing is served at `/`
    cloudevents_03    True: events of CloudEvents 0.3 are accepted, and stored as events of 1.0
    """

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    webhook_origins: tuple[str, ...] = ("*",)
    webhook_rate: Annotated[int, Meta(ge=0)] = 0
    webhook_tls: bool = True
    webhook_callbacks: tuple[Host, ...] = ()
    event_routes: tuple[EventRoute, ...] = ()
    cloudevents_03: bool = False

    def __post_init__(self) -> None:
        if len(self.event_routes) > ROUTES_MAX:
            raise ValueError(f"event_routes has {len(self.event_routes)} rules: at most {ROUTES_MAX}")
