"""The last packet of the server to a client: a refusing CONNACK, or DISCONNECT (MQTT 5, 3.2 and 3.14)."""

from __future__ import annotations

from typing import Final, final

from protocols.mqtt import property as props
from protocols.mqtt import status
from protocols.mqtt.connect import NOT_MQTT, Connack, Disconnect, encode_connack, encode_disconnect
from protocols.mqtt.output import Output
from protocols.mqtt.packet import Decoder
from protocols.mqtt.property import Properties
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.wire import V5, PacketError

RETURN_CODES: Final = {0x85: 2, 0x86: 4, 0x87: 5, 0x8A: 5, 0x88: 3, 0x89: 3, 0x97: 3, 0x9C: 3, 0x9D: 3, 0x9F: 3, 0x01: 1}
"""Reason code -> return code of CONNACK below 5.0. For other reason codes the connection is closed without a CONNACK."""
REDIRECTS: Final = {"use-another": 0x9C, "moved": 0x9D}
"""Setting `redirect` -> reason code: use another server, server moved (4.11). They come with the Server Reference."""


@final
class Goodbye:
    """The end of one connection, in the protocol version of its client.

    accepted   True: CONNACK has accepted the client
    """

    def __init__(self, config: MqttSettings, decoder: Decoder, output: Output) -> None:
        self._config = config
        self._decoder = decoder
        self._output = output
        self.accepted = False

    def send(self, code: int, words: str) -> None:
        """Send DISCONNECT after CONNACK; before CONNACK send a refusing CONNACK if it has such a code (MQTT-3.14.0-1)."""
        if self.accepted:
            self._disconnect(code, words)
        elif self._decoder.version and code in status.BEFORE_CONNACK:
            self.refuse(status.BEFORE_CONNACK[code], words)

    def stop(self) -> None:
        """The server stops: 0x8B, or a redirect's code with a server reference (4.11, 4.13)."""
        redirect = REDIRECTS[self._config.redirect or "use-another"]
        self.send(redirect if self._config.server_reference else 0x8B, "the server stops")

    def fault(self, broken: PacketError) -> None:
        """The client has broken the protocol: send DISCONNECT or CONNACK where the version has a code for it."""
        if self.accepted:
            self._disconnect(broken.code, broken.text)
        elif broken.code != NOT_MQTT:
            self.refuse(broken.code, broken.text)

    def refuse(self, code: int, words: str) -> None:
        """Send CONNACK with a reason code, to 5.0 with a reason string; below 5.0 none for a code without a return code."""
        if self._decoder.version == V5 or code == 0x84:
            said = Properties()
            said.texts[props.REASON_STRING] = words
            self._put_reference(said, code)
            self._output.put(encode_connack(Connack(False, code, said), V5))
        elif code in RETURN_CODES:
            self._output.put(encode_connack(Connack(False, RETURN_CODES[code]), self._decoder.version))

    def _disconnect(self, code: int, words: str) -> None:
        """Send DISCONNECT (5.0). The reason string is left out when the packet would be too large for the client."""
        if self._decoder.version != V5:
            return
        said = Properties()
        self._put_reference(said, code)
        most = self._output.packet_bytes_max
        if most == 0 or most > len(words.encode()) + len(self._config.server_reference.encode()) + 16:
            said.texts[props.REASON_STRING] = words
        self._output.put(encode_disconnect(Disconnect(code, said), V5))

    def _put_reference(self, said: Properties, code: int) -> None:
        if self._config.server_reference and code in REDIRECTS.values():
            said.texts[props.SERVER_REFERENCE] = self._config.server_reference
