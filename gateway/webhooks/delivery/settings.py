"""The table `[webhook]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from domain.subscription.sink import Network, networks

Connections = Annotated[int, Meta(ge=1, le=65_536)]
Origin = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:\-]+$")]
Callback = Annotated[str, Meta(max_length=1_024, pattern=r'^(https?://[!"$->@-~]*[!"$-.0->@-~])?$')]


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Settings of deliveries to webhooks. Raises ValueError for values that are not valid.

    deliver           False: this process delivers for no subscription; another one has to
    allow             networks that sinks may be in besides public ones, http included: ["127.0.0.0/8"]
    origin            what WebHook-Request-Origin says in the handshake and in deliveries
    callback          URL by which sinks reach `/subscriptions` of this node, as `https://events.example.com`: a sink that does
                      not consent at once may do so there; "": handshakes name no callback
    ca                PEM file of further authorities whose certificates sinks may have; "": those of the system alone
    connections_max   connections to sinks, in all; at most a sixteenth of the limit of open files
    """

    deliver: bool = True
    allow: tuple[str, ...] = ()
    origin: Origin = "headgate"
    callback: Callback = ""
    ca: str = ""
    connections_max: Connections = 4_096

    def __post_init__(self) -> None:
        networks(self.allow)

    @property
    def sinks(self) -> tuple[Network, ...] | None:
        """Networks of `allow`; None: other processes deliver, and judge sinks by their own settings."""
        return networks(self.allow) if self.deliver else None
