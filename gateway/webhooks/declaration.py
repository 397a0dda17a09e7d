"""The declaration of webhooks, which the entry point `webhooks` of `gateway.use_cases` names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, final

from domain.access.access import GROUP, Need
from domain.address import topic_of_path
from domain.admin.subscription import (
    ChangeStatus,
    DeleteSubscription,
    GrantConsent,
    PutSubscription,
    QueryAttempts,
    QuerySubscriptions,
    Redrive,
    ResetSubscription,
    TestSubscription,
)
from domain.ports import Clock
from gateway.access.needs import PUBLISH, SUBSCRIBE, CommandNeeds, PathNeed, listen, of_nothing, of_topic
from gateway.connection.handler import Handler
from gateway.guard.descriptors import sinks_max
from gateway.guard.writes import Writes
from gateway.link.sinks.courier import HttpCourier
from gateway.node.roles.role_names import GATEWAY
from gateway.node.settings import Config
from gateway.node.storage import is_rocketmq
from gateway.node.use_cases import UseCaseContext, UseCaseDeclaration, UseCaseParts
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import open_files_max
from gateway.webhooks.delivery.deliverers import Deliverers
from gateway.webhooks.delivery.settings import WebhookSettings
from gateway.webhooks.sender_consent import SenderConsent
from gateway.webhooks.subscriptions.use_cases import NoSubscriptions, webhook_use_cases
from protocols.setting import Setting


@final
class WebhookWork:
    """Claims subscriptions, and sends to sinks and to senders.

    Made before the ports are open, begun when clients are served, paused when the node stops, closed at its end.
    """

    def __init__(self, settings: WebhookSettings, gate: Handler, granting: SenderConsent, clock: Clock, delivers: bool) -> None:
        """`delivers`: True: subscriptions are claimed and delivered; consents to senders are sent in both cases.

        Raises ConfigError: the file of `ca` cannot be read.
        """
        self._courier = HttpCourier(settings.allow, settings.ca, sinks_max(settings.connections_max, open_files_max()))
        self._granting = granting
        self._deliverers: Deliverers | None = None
        if delivers:
            self._deliverers = Deliverers(gate, self._courier, clock, SystemEntropy(), settings.origin, settings.callback)

    def begin(self) -> None:
        """Claim subscriptions, deliver, and send consents."""
        self._granting.courier = self._courier
        if self._deliverers is not None:
            self._deliverers.start()

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""
        found = {} if self._deliverers is None else self._deliverers.figures()
        return found | self._granting.figures()

    def pause(self) -> None:
        """End all deliveries, and give the subscriptions back."""
        if self._deliverers is not None:
            self._deliverers.stop()
        self._granting.courier = None

    async def close(self) -> None:
        """End all connections to sinks."""
        await self._courier.close()


@final
class WebhookClients:
    """Webhooks at a side that serves clients."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self.granting = SenderConsent(clock)
        self._config = config
        self._clock = clock
        self._settings = config.part(WebhookSettings, "webhook")

    def extended(self, setting: Setting) -> Setting:
        """Subscribers may name sinks in the networks of the settings; senders get consents."""
        return replace(setting, grant=self.granting.grant, sinks=self._settings.sinks)

    def work(self, gate: Handler) -> WebhookWork | None:
        """That of a process that serves clients; None: the process is another. Raises ConfigError."""
        if GATEWAY not in self._config.role_set:
            return None
        settings = self._settings
        delivers = settings.deliver and not is_rocketmq(self._config)
        return WebhookWork(settings, gate, self.granting, self._clock, delivers)


def _make(context: UseCaseContext) -> UseCaseParts:
    if not context.own_store:
        return UseCaseParts(verbs=(NoSubscriptions(),))
    return UseCaseParts(verbs=webhook_use_cases(context.store, context.handler, context.clock, context.entropy))


def _subscribed(found: PutSubscription) -> Iterable[Need | PathNeed]:
    """A subscription receives for its user, and publishes what sinks answer."""
    yield listen(found.source)
    if topic_of_path(found.source) == found.source:
        yield listen(f"{found.source}/#")  # it is a topic, and all of its paths are delivered
    if found.group:
        yield Need(GROUP, found.group, SUBSCRIBE)
    for topic in found.topics:
        yield of_topic(topic, PUBLISH)


USE_CASE: Final = UseCaseDeclaration(
    make=_make,
    client=WebhookClients,
    tables={"webhook": WebhookSettings},
    needs=CommandNeeds(
        {
            PutSubscription: _subscribed,
            **dict.fromkeys(
                (
                    QuerySubscriptions, DeleteSubscription, ChangeStatus, GrantConsent, QueryAttempts, TestSubscription,
                    Redrive, ResetSubscription,
                ),
                of_nothing,
            ),
        }
    ),
    writes=Writes(
        setting=frozenset(
            {PutSubscription, DeleteSubscription, ChangeStatus, GrantConsent, TestSubscription, Redrive, ResetSubscription}
        ),
        later=frozenset({Redrive, ResetSubscription}),
    ),
    sinks=lambda config, descriptors: sinks_max(config.part(WebhookSettings, "webhook").connections_max, descriptors),
)  # fmt: skip
