"""Handshake in which a sink consents to deliveries (CloudEvents HTTP WebHook 1.0.2, section 4)."""

from __future__ import annotations

from domain.subscription.courier import SinkAnswer, SinkRequest
from domain.subscription.subscription import WebhookSubscription, granted_rate


def question(subscription: WebhookSubscription, origin: str, callback: str) -> SinkRequest:
    """OPTIONS request to the exact URL of the sink. `callback`: URL at which it may consent later; "": none."""
    fields = [("webhook-request-origin", origin)]
    if callback:
        fields.append(("webhook-request-callback", callback))
    if subscription.rate_per_minute:
        fields.append(("webhook-request-rate", str(subscription.rate_per_minute)))
    return SinkRequest("OPTIONS", subscription.sink, fields, b"", subscription.retry.timeout_ms, subscription.credential)


def consent(answer: SinkAnswer, origin: str) -> tuple[bool, int]:
    """(True when the sink consents, deliveries per minute that it grants; 0: unlimited).

    A sink consents by the field WebHook-Allowed-Origin with this origin or `*`, with any status.
    """
    found = {name: value.strip() for name, value in answer.fields}
    allowed = found.get("webhook-allowed-origin", "")
    if allowed != "*" and allowed.lower() != origin.lower():
        return False, 0
    return True, granted_rate(found.get("webhook-allowed-rate", "*"))
