"""Signatures of deliveries (Standard Webhooks 1.0.0): HMAC-SHA256 over id, timestamp and content."""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode

from domain.subscription.subscription import Credential, Scheme


def identity_fields(credential: Credential | None, message_id: str, timestamp_s: int, body: bytes) -> list[tuple[str, str]]:
    """The fields `webhook-id` and `webhook-timestamp`, and with a secret `webhook-signature`: one signature per secret, two
    during a rotation."""
    fields = [("webhook-id", message_id), ("webhook-timestamp", str(timestamp_s))]
    if credential is None or credential.scheme is not Scheme.STANDARD_WEBHOOKS:
        return fields
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    values = (credential.values.get("secret", ""), credential.values.get("previous", ""))
    signatures = " ".join(f"v1,{_mac(secret, signed)}" for secret in values if secret)
    return [*fields, ("webhook-signature", signatures)]


def _mac(secret: str, signed: bytes) -> str:
    text = secret.removeprefix("whsec_")
    try:
        key = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:  # the document was checked: it is no base64 by its length only
        key = text.encode()
    return b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
