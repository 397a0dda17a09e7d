"""CONNECT to Attach, and Attached to CONNACK (MQTT 5, 3.1 and 3.2)."""

from __future__ import annotations

import base64
import binascii
from typing import final

from domain.access.access import Authority, Password, Signature, no_credentials
from domain.access.principal import Principal
from domain.address import endpoint_text
from domain.client.mqtt_session import EXPIRY_NEVER, Attach, EndsAt, Will
from domain.errors import Failure
from domain.message.message import Message
from domain.ports import Entropy
from protocols.adapter import Peer
from protocols.mqtt import property as props
from protocols.mqtt import status
from protocols.mqtt.connect import Connack, Connect, encode_connack
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.translate import STORED_BYTES_MAX, content, is_too_large, message, route
from protocols.mqtt.wire import V3, V5, PacketError


@final
class Terms:
    """Terms that client and server have agreed on by CONNECT.

    keep_alive_s        keep-alive in force; 0: none
    expiry_s            session expiry interval in force
    wanted_expiry_s     session expiry interval that CONNECT asked for
    assigned            True: the server has chosen the client id
    packet_bytes_max    largest packet that the client accepts; 0: any size
    alias_maximum       topic aliases that the client accepts
    problem_info        reason strings may be in packets other than CONNACK and DISCONNECT
    response_info       the client requests Response Information
    method              authentication method; "": user name and password, certificate, or nothing
    bridge              the client is a bridge below 5.0, which cannot say No Local and Retain As Published, and needs both
    """

    __slots__ = (
        "alias_maximum", "assigned", "bridge", "client_id", "expiry_s", "keep_alive_s", "method", "packet_bytes_max",
        "problem_info", "response_info", "version", "wanted_expiry_s", "wanted_keep_alive_s",
    )  # fmt: skip

    def __init__(self, packet: Connect, config: MqttSettings, entropy: Entropy) -> None:
        """Raises PacketError with the reason code of the CONNACK that refuses."""
        given = packet.properties
        self.version = packet.version
        self.bridge = packet.bridge
        self.method = given.texts.get(props.AUTH_METHOD, "")
        if props.AUTH_METHOD in given.texts and not self.method:
            raise PacketError(0x8C, "an authentication method without a name")
        self.client_id = packet.client_id
        self.assigned = packet.client_id == ""
        if self.assigned:
            if packet.version == V3 or (packet.version != V5 and not packet.clean):
                raise PacketError(0x85, "an empty client id needs a clean session")
            self.client_id = "hg-" + entropy.token(12).hex()
        elif len(packet.client_id.encode()) > config.client_id_bytes_max or min(packet.client_id) < " ":
            raise PacketError(0x85, "the client id is too long, or has control characters")
        self.wanted_keep_alive_s = packet.keep_alive_s
        self.keep_alive_s = packet.keep_alive_s
        most = config.keep_alive_max_s
        if packet.version == V5 and most and (packet.keep_alive_s == 0 or packet.keep_alive_s > most):
            self.keep_alive_s = most
        if packet.version == V5:
            self.wanted_expiry_s = given.number(props.SESSION_EXPIRY, 0)
        else:
            self.wanted_expiry_s = 0 if packet.clean else EXPIRY_NEVER
        self.expiry_s = min(self.wanted_expiry_s, config.session_expiry_max_s)
        self.packet_bytes_max = given.number(props.MAXIMUM_PACKET_SIZE, 0)
        self.alias_maximum = min(given.number(props.TOPIC_ALIAS_MAXIMUM, 0), config.topic_alias_maximum)
        self.problem_info = packet.version == V5 and given.number(props.REQUEST_PROBLEM, 1) == 1
        self.response_info = given.number(props.REQUEST_RESPONSE, 0) == 1
        will = packet.will
        if will is not None and will.qos > config.qos_max:
            raise PacketError(0x9B, f"a will with QoS {will.qos}, at most {config.qos_max} is taken")
        if will is not None and will.retain and not config.retain_available:
            raise PacketError(0x9A, "a will that is to be retained")

    def reason_string(self, words: str, codes: int = 0) -> Properties:
        """Properties with a reason string for a packet with `codes` codes; NONE when unwanted or too large (3.4.2.2.2)."""
        most = self.packet_bytes_max
        if not words or not self.problem_info or (most and codes + len(words.encode()) + 16 > most):
            return NONE
        why = Properties()
        why.texts[props.REASON_STRING] = words
        return why


def attach(ticket: object, packet: Connect, terms: Terms, config: MqttSettings, peer: Peer) -> Attach:
    """The command for a CONNECT with valid terms. PacketError for a will that could not be published."""
    window = min(config.window_max, packet.properties.number(props.RECEIVE_MAXIMUM, 65_535))
    will = _will(packet, terms, peer.born_host)
    where = endpoint_text(peer.host, peer.port)
    found = Attach(ticket, terms.client_id, packet.clean, terms.expiry_s, window, will, terms.packet_bytes_max, where)
    if terms.version == V5:
        found.ends_at = EndsAt.UNSURE
    elif not config.accept_refused_publish:
        found.ends_at = EndsAt.ALL
    return found


def identify(authority: Authority, packet: Connect, peer: Peer, signed: bool) -> Principal:
    """Authenticate the client by user name and password, else by its certificate. PacketError 0x86 when that fails.

    signed   the password may be the Base64 of an HMAC-SHA1 of the client id, keyed by the user's password (rocketmq-mqtt)
    """
    credentials = None
    if packet.user is not None or packet.password is not None:
        user, password = packet.user or "", packet.password or b""
        credentials = Password(user, password)
        mac = _mac(password) if signed else b""
        if mac:
            known = authority.authenticate(Signature(user, mac, packet.client_id.encode()), peer.host)
            if not isinstance(known, Failure):
                return known
    found = authority.authenticate(credentials, peer.host, peer.principal)
    if isinstance(found, Failure):
        if credentials is None and not peer.principal:
            found = no_credentials("mqtt")
        raise PacketError(status.connect_code(found), found.text)
    return found


def _mac(password: bytes) -> bytes:
    """The bytes of an HMAC-SHA1 in Base64; b"" for anything else."""
    if len(password) != 28:
        return b""
    try:
        mac = base64.b64decode(password, validate=True)
    except binascii.Error:
        return b""
    return mac if len(mac) == 20 else b""


def _will(packet: Connect, terms: Terms, born_host: bytes) -> Will | None:
    will = packet.will
    if will is None:
        return None
    where = route(will.topic.encode(), terms.client_id)
    if where.refusal:
        raise PacketError(where.refusal, "the will's topic cannot be published to")
    given = will.properties
    expiry_s = given.number(props.MESSAGE_EXPIRY, -1)
    delay_s = given.number(props.WILL_DELAY, 0)
    kept = given
    if given is not NONE:
        # The expiry interval of a will starts when the will is published: the gateway writes the expiry then.
        kept = Properties()
        kept.texts = given.texts
        kept.blobs = given.blobs
        kept.user = given.user
        kept.numbers = {name: value for name, value in given.numbers.items() if name == props.PAYLOAD_FORMAT}
    sent: Message = message(where, content(kept, will.body, terms.version, 0), will.qos, will.retain, born_host)
    if is_too_large(sent):
        raise PacketError(0x97, f"topic and properties of the will are above {STORED_BYTES_MAX:,} bytes when stored")
    return Will(sent, delay_s, expiry_s)


def accepting_connack(terms: Terms, present: bool, config: MqttSettings, proof: bytes = b"") -> bytes:
    """CONNACK that accepts a connection; in 5.0 with the properties that differ from the defaults.

    present   Session Present
    proof     Authentication Data of the server, b"": none
    """
    if terms.version != V5:
        return encode_connack(Connack(present, 0), terms.version)
    said = Properties()
    numbers = said.numbers
    if terms.expiry_s != terms.wanted_expiry_s:
        numbers[props.SESSION_EXPIRY] = terms.expiry_s
    numbers[props.RECEIVE_MAXIMUM] = config.receive_maximum
    numbers[props.MAXIMUM_PACKET_SIZE] = config.packet_bytes_max
    if config.topic_alias_maximum:
        numbers[props.TOPIC_ALIAS_MAXIMUM] = config.topic_alias_maximum
    if config.qos_max < 2:
        numbers[props.MAXIMUM_QOS] = config.qos_max
    for name, available in (
        (props.RETAIN_AVAILABLE, config.retain_available),
        (props.WILDCARD_AVAILABLE, config.wildcards_available),
        (props.SUBSCRIPTION_ID_AVAILABLE, config.identifiers_available),
    ):
        if not available:
            numbers[name] = 0
    numbers[props.SHARED_AVAILABLE] = 1 if config.shared_available else 0
    if terms.keep_alive_s != terms.wanted_keep_alive_s:
        numbers[props.SERVER_KEEP_ALIVE] = terms.keep_alive_s
    if terms.assigned:
        said.texts[props.ASSIGNED_CLIENT_ID] = terms.client_id
    if terms.response_info and config.response_information:
        said.texts[props.RESPONSE_INFORMATION] = config.response_information.replace("%c", terms.client_id)
    if terms.method:
        said.texts[props.AUTH_METHOD] = terms.method
        if proof:
            said.blobs[props.AUTH_DATA] = proof
    return encode_connack(Connack(present, 0, said), V5)
