"""CoAP over UDP: RFC 7252, 7641, 7959, 7967, 8516, 9175. See README.md."""

from __future__ import annotations

from protocols.adapter import DatagramAdapter, Setting


def create(setting: Setting) -> DatagramAdapter:
    """The adapter, by entry point. Raises ConfigError for a setting that is none."""
    from protocols.coap.adapter import CoapAdapter

    return CoapAdapter(setting)
