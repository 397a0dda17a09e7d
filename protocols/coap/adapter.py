"""CoAP as the gateway knows it: a datagram protocol."""

from __future__ import annotations

from typing import final

from protocols.adapter import Setting
from protocols.coap.config import CoapConfig
from protocols.coap.endpoint import CoapEndpoint


@final
class CoapAdapter:
    """CoAP over UDP."""

    name = "coap"

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.config = CoapConfig.of(setting.options)

    def bind(self, now: int) -> CoapEndpoint:
        """State for one bound socket."""
        return CoapEndpoint(self.setting, self.config, now)
