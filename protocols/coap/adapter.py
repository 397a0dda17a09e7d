"""The adapter of CoAP, a datagram protocol, and its declaration."""

from __future__ import annotations

from typing import Final, final

from protocols.coap.config import CoapConfig
from protocols.coap.endpoint import CoapEndpoint
from protocols.coap.reasons import WORDS
from protocols.coap.refusal import refusal
from protocols.declaration import Declaration, Listener
from protocols.setting import Setting


@final
class CoapAdapter:
    """The datagram adapter of CoAP over UDP.

    setting   facts about the node
    config    the settings of CoAP
    """

    name = "coap"

    def __init__(self, setting: Setting, config: CoapConfig) -> None:
        self.setting = setting
        self.config = config

    def bind(self, now: int) -> CoapEndpoint:
        """State for one bound socket."""
        return CoapEndpoint(self.setting, self.config, now)


PROTOCOL: Final = Declaration(
    "coap",
    settings=CoapConfig,
    datagram=CoapAdapter,
    listeners=(Listener("coap", 5683, "CoAP (UDP)", datagrams=True, place=90),),
    refusal=refusal,
    words=WORDS,
)
