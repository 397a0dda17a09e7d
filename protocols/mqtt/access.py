"""Authentication of a client: CONNECT, AUTH before CONNACK, and re-authentication on an open connection (MQTT 5, 3.1, 4.12)."""

from __future__ import annotations

from typing import Final, final

from domain.access.access import AuthenticationExchange, Challenge, Reauthenticate
from domain.access.principal import Principal
from domain.client.mqtt_session import Attach
from domain.command import Command
from domain.errors import Failure
from protocols.adapter import Peer
from protocols.mqtt import handshake, status
from protocols.mqtt import property as props
from protocols.mqtt.connect import Auth, Connect, Disconnect, encode_auth
from protocols.mqtt.goodbye import REDIRECTS
from protocols.mqtt.handshake import Terms
from protocols.mqtt.output import Output
from protocols.mqtt.property import Properties
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.wire import PacketError
from protocols.setting import Setting

SUCCESS: Final = 0x00
CONTINUE: Final = 0x18
REAUTHENTICATE: Final = 0x19


@final
class ClientAuthentication:
    """The handshake and the authentication of one connection. It is the ticket of Attach and of Reauthenticate.

    terms   terms agreed on by CONNECT; None before it
    proof   Authentication Data of the server's last AUTH or CONNACK; b"" for none
    """

    def __init__(self, setting: Setting, config: MqttSettings, peer: Peer, output: Output) -> None:
        self._authority = setting.authority
        self._entropy = setting.entropy
        self._config = config
        self._peer = peer
        self._output = output
        self._attach: Attach | None = None
        self._exchange: AuthenticationExchange | None = None
        self.proof = b""
        self.terms: Terms | None = None

    def connect(self, packet: Connect) -> Attach | None:
        """Handle CONNECT. Returns the Attach of an authenticated client, None when an AUTH of the client has to follow.

        Raises PacketError with the reason code of the CONNACK that refuses the client.
        """
        output = self._output
        terms = self.terms = Terms(packet, self._config, self._entropy)
        output.version = terms.version
        output.packet_bytes_max = terms.packet_bytes_max
        output.alias_maximum = terms.alias_maximum
        if self._config.redirect:
            raise PacketError(REDIRECTS[self._config.redirect], "clients are served elsewhere")
        attach = handshake.attach(self, packet, terms, self._config, self._peer)
        if terms.method:
            self._attach = attach
            self._start_exchange(0x8C)
            found = self._respond(packet.properties.blobs.get(props.AUTH_DATA, b""), status.connect_code)
            return self._attach_as(found)
        if self._authority is not None:
            _set_principal(attach, handshake.identify(self._authority, packet, self._peer, self._config.hmac_passwords))
        return attach

    def auth(self, packet: object) -> Attach | None:
        """Handle a packet between CONNECT and CONNACK: only AUTH is legal, after a CONNECT with a method (3.1.2.11.9).

        Returns the Attach of an authenticated client, None when another AUTH has to follow. Raises PacketError.
        """
        if not isinstance(packet, Auth) or packet.code != CONTINUE:
            raise PacketError(0x82, "nothing but AUTH and DISCONNECT can come before CONNACK")
        return self._attach_as(self._respond(self._data(packet), status.connect_code))

    def reauthenticate(self, packet: Auth) -> Command | None:
        """Handle AUTH on an open connection: it starts or continues a re-authentication (4.12.1).

        Returns a Reauthenticate once the client is authenticated, None before. Raises PacketError.
        """
        data = self._data(packet)
        if packet.code == REAUTHENTICATE and self._exchange is None:
            self._start_exchange(0x87)
        elif packet.code != CONTINUE or self._exchange is None:
            raise PacketError(0x82, f"AUTH with reason {packet.code:#04x}, which does not come next")
        found = self._respond(data, status.reauthentication_code)
        if found is None:
            return None
        return _set_principal(Reauthenticate(self), found)

    def reauthenticated(self) -> None:
        """Send AUTH with reason code 0x00: the gateway has accepted the re-authentication."""
        self._send_auth(SUCCESS, self.proof)

    def _attach_as(self, found: Principal | None) -> Attach | None:
        attach = self._attach
        if found is None or attach is None:
            return None
        self._attach = None
        _set_principal(attach, found)
        return attach

    def _start_exchange(self, code: int) -> None:
        terms = self.terms
        if self._authority is not None and terms is not None:
            self._exchange = self._authority.converse(terms.method, self._peer.host, self._entropy)
        if self._exchange is None:
            raise PacketError(code, "this authentication method is not offered")

    def _respond(self, data: bytes, code: status.Code) -> Principal | None:
        """Pass one step of the exchange on. Returns the principal at its end, None after sending AUTH 0x18 (continue).

        `code` maps a failure to the reason code of the PacketError that is raised for it.
        """
        exchange = self._exchange
        if exchange is None:
            raise PacketError(0x82, "AUTH without a proof under way")
        found = exchange.respond(data)
        if isinstance(found, Challenge):
            self._send_auth(CONTINUE, found.data)
            return None
        self._exchange = None
        if isinstance(found, Failure):
            raise PacketError(code(found), found.text)
        self.proof = found.data
        return found.principal

    def _data(self, packet: Auth) -> bytes:
        """Authentication Data of an AUTH. PacketError 0x82 when its method is not the one of CONNECT (4.12.0)."""
        method = packet.properties.texts.get(props.AUTH_METHOD)
        if self.terms is None or not self.terms.method or method != self.terms.method:
            raise PacketError(0x82, "AUTH without the authentication method that CONNECT has named")
        return packet.properties.blobs.get(props.AUTH_DATA, b"")

    def _send_auth(self, code: int, data: bytes) -> None:
        said = Properties()
        if self.terms is not None:
            said.texts[props.AUTH_METHOD] = self.terms.method
        if data:
            said.blobs[props.AUTH_DATA] = data
        self._output.put(encode_auth(Auth(code, said)))


def _set_principal(command: Command, principal: Principal) -> Command:
    command.principal = principal
    return command


CLIENT_DISCONNECT_CODES: Final = frozenset({0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x99})
"""The reason codes that a client's DISCONNECT may have (3.14.2.1)."""


def session_expiry_of(packet: Disconnect, terms: Terms, config: MqttSettings) -> int:
    """Session Expiry Interval in seconds of a client's DISCONNECT, -1: unchanged (3.14.2).

    Raises PacketError 0x82 for a reason code or a property that a client may not send.
    """
    if packet.code not in CLIENT_DISCONNECT_CODES:
        raise PacketError(0x82, f"DISCONNECT with reason {packet.code:#04x} from a client")
    if props.SERVER_REFERENCE in packet.properties.texts:
        raise PacketError(0x82, "a server reference from a client")
    expiry_s = packet.properties.numbers.get(props.SESSION_EXPIRY, -1)
    if expiry_s > 0 and terms.wanted_expiry_s == 0:
        raise PacketError(0x82, "a session expiry where CONNECT had none")
    return min(expiry_s, config.session_expiry_max_s)
