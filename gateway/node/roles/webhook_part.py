"""The part of a node that delivers to webhooks: what claims subscriptions, and what sends to sinks and to senders."""

from __future__ import annotations

from typing import final

from domain.ports import Clock
from gateway.guard.descriptors import sinks_max
from gateway.link.sinks.courier import HttpCourier
from gateway.node.client_side import ClientSide
from gateway.node.roles.role_names import GATEWAY
from gateway.node.settings import Config
from gateway.node.storage import is_rocketmq
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import open_files_max
from gateway.webhooks.delivery.deliverers import Deliverers
from gateway.webhooks.delivery.settings import WebhookSettings


@final
class WebhookPart:
    """Made before the ports are open, begun when clients are served, paused when the node stops, closed at its end."""

    def __init__(self, settings: WebhookSettings, side: ClientSide, clock: Clock, delivers: bool) -> None:
        """`delivers`: False: only consents are sent, to those who deliver here. Raises ConfigError: the file of `ca` cannot be
        read."""
        self._courier = HttpCourier(settings.allow, settings.ca, sinks_max(settings.connections_max, open_files_max()))
        self._granting = side.granting
        self._deliverers: Deliverers | None = None
        if delivers:
            self._deliverers = Deliverers(side.gate, self._courier, clock, SystemEntropy(), settings.origin, settings.callback)

    def begin(self) -> None:
        """Claim subscriptions, deliver, and send consents."""
        if self._granting is not None:
            self._granting.courier = self._courier
        if self._deliverers is not None:
            self._deliverers.start()

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""
        found = {} if self._deliverers is None else self._deliverers.figures()
        return found if self._granting is None else found | self._granting.figures()

    def pause(self) -> None:
        """End all deliveries, and give the subscriptions back."""
        if self._deliverers is not None:
            self._deliverers.stop()
        if self._granting is not None:
            self._granting.courier = None

    async def close(self) -> None:
        """End all connections to sinks."""
        await self._courier.close()


def webhook_part_of(config: Config, side: ClientSide, clock: Clock) -> WebhookPart | None:
    """That of a process that serves clients; None: the process is another. Raises ConfigError."""
    if GATEWAY not in config.role_set:
        return None
    settings = config.part(WebhookSettings, "webhook")
    return WebhookPart(settings, side, clock, settings.deliver and not is_rocketmq(config))
