"""Status of subscriptions: pause, resume, consent, and suspension when the sink or the user's rights are gone."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final, final

from domain.access.principal import Principal
from domain.admin.subscription import ChangeStatus, GrantConsent, PutSubscription, SubscriptionFound
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.subscription.document import encode
from domain.subscription.subscription import GROUP_PREFIX, Status, WebhookSubscription
from gateway.access.revocation import RightsCheck
from gateway.connection.client_connection import CLOSED_DRIVER, ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.waiting.long_questions import STEP_ITEMS
from gateway.webhooks.subscriptions.claims import DELIVERING, Claims
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions

log = logging.getLogger("headgate.webhooks")

MEANWHILE_MS: Final = 60_000
"""Age up to which a consent takes precedence over PENDING from an owner, whose request may be older."""
PAUSE_NS: Final = MILLISECOND_NS
"""Pause between two steps of a review."""


@final
class SubscriptionStatus:
    """The verbs ChangeStatus and GrantConsent.

    _check     returns the reason why a user may not have a subscription; None: access control is off
    """

    def __init__(self, book: WebhookSubscriptions, claims: Claims, clock: Clock) -> None:
        self._book = book
        self._claims = claims
        self._clock = clock
        self._check: RightsCheck | None = None
        self._reviewing: Iterator[bytes] = iter(())
        self.verbs: Verbs = {ChangeStatus: self._change, GrantConsent: self._grant}

    def _change(self, connection: ClientConnection, command: ChangeStatus) -> None:
        found = self._book.find(command.id) if command.epoch >= 0 else self._book.visible(command, command.id)
        if not isinstance(found, WebhookSubscription):
            failure = found or Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, f"there is no subscription {command.id[:80]}")
            connection.answer(Refused(command.ticket, failure))
            return
        changed = self._changed(command, found)
        if isinstance(changed, Failure):
            connection.answer(Refused(command.ticket, changed))
        elif changed is None:
            connection.answer(SubscriptionFound(command.ticket, encode(found)))
        else:
            self._store(connection, changed, SubscriptionFound(command.ticket, encode(changed)))

    def _changed(self, command: ChangeStatus, found: WebhookSubscription) -> WebhookSubscription | Failure | None:
        """The subscription with its new status; None: it stays as it is."""
        status, at_ms = Status(command.status), found.consented_ms
        if command.epoch >= 0:
            # The change of an owner is valid while it holds the claim, for the version of the subscription that it had.
            if not self._claims.holds(command.id, command.epoch) or command.version != found.version:
                return None
            if found.status not in DELIVERING:
                return None  # paused or suspended in the meantime
            if status is Status.PENDING and self._clock.wall_ms() - at_ms < MEANWHILE_MS:
                return None  # the sink has consented in the meantime
        elif status is Status.ACTIVE:
            # The user's rights are checked nowhere else: deliveries run as the gateway.
            lost = None if self._check is None else _lost(self._check, found)
            if lost is not None:
                return lost
            status = Status.PENDING if found.verify else status
        if status in (Status.PENDING, Status.SUSPENDED):
            at_ms = 0  # the sink has to consent again
        reason = command.reason[:1_000]
        if status is Status.SUSPENDED:
            reason = _suspended(found, reason)
        return replace(found, status=status, reason=reason, version=found.version + 1, consented_ms=at_ms)

    def _grant(self, connection: ClientConnection, command: GrantConsent) -> None:
        found = self._book.find(command.id)
        given = command.key.encode("utf-8", "replace")
        if found is None or not found.consent_key or not hmac.compare_digest(found.consent_key.encode(), given):
            # An unknown id and a wrong key get the same answer, which does not disclose the ids that exist.
            failure = Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, "there is no subscription with this id and key")
            connection.answer(Refused(command.ticket, failure))
            return
        status = Status.ACTIVE if found.status is Status.PENDING else found.status
        now_ms = self._clock.wall_ms()
        changed = replace(
            found, status=status, consented_ms=now_ms, granted_rate=command.rate, version=found.version + 1
        )  # fmt: skip
        self._store(connection, changed, Done(command.ticket))

    def _store(self, connection: ClientConnection, changed: WebhookSubscription, event: SubscriptionFound | Done) -> None:
        """Store a subscription, and answer with `event`."""

        def stored(result: None | Failure) -> None:
            connection.answer(Refused(event.ticket, result) if isinstance(result, Failure) else event)

        self._book.store(changed, stored)

    # Rights

    def review_kept(self, check: RightsCheck) -> None:
        """Suspend the subscriptions whose users have lost the right to them.

        Called at the start, and after each change of users, policies or rules; a call restarts a review in progress. A step
        checks STEP_ITEMS subscriptions.
        """
        self._check = check
        self._reviewing = iter(list(self._book.records))
        self._review_some(check, self._reviewing)

    def _review_some(self, check: RightsCheck, keys: Iterator[bytes]) -> None:
        if keys is not self._reviewing:
            return
        for key in islice(keys, STEP_ITEMS):
            self._judge(check, key)
        left = next(keys, None)
        if left is None:
            return
        self._judge(check, left)
        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, lambda: self._review_some(check, keys))

    def _judge(self, check: RightsCheck, key: bytes) -> None:
        found = self._book.find(key.decode())
        if found is None or found.status is Status.SUSPENDED:
            return
        failure = _lost(check, found)
        if failure is not None:
            reason = _suspended(found, f"the rights of {found.user} have changed: {failure.text}"[:1_000])
            changed = replace(found, status=Status.SUSPENDED, reason=reason, version=found.version + 1)
            self._book.store(changed, lambda _: None)


def _suspended(found: WebhookSubscription, reason: str) -> str:
    """The reason of a suspension with what ends it, which is logged, too."""
    told = f"{reason}; mend that, then POST /subscriptions/{found.id}:resume"
    log.warning("webhook subscription %s of %s is suspended: %s", found.id, found.source, told)
    return told


def _lost(check: RightsCheck, subscription: WebhookSubscription) -> Failure | None:
    """The reason why the user of a subscription has lost the right to it; None: it has the right, or the subscription was
    created without access control."""
    if not subscription.user:
        return None
    connection = ClientConnection("http", CLOSED_DRIVER, Principal(subscription.user, subscription.host, epoch=-1))
    published = [topic for topic in (subscription.reply_topic, subscription.dead_letter_topic) if topic]
    # The group that was created for the subscription needs no right.
    group = "" if subscription.group == GROUP_PREFIX + subscription.id else subscription.group
    return check(connection, PutSubscription(None, b"", subscription.source, group, published, subscription.id))
