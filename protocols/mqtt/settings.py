"""The settings of MQTT: table `[mqtt]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final, Literal

from msgspec import Meta

from domain.limits import MQTT_PACKET_BYTES_MAX

TEXT_BYTES_MAX: Final = 1_024
Count = Annotated[int, Meta(ge=1, le=65_535)]
Bytes = Annotated[int, Meta(ge=1, le=1 << 40)]
Text = Annotated[str, Meta(max_length=TEXT_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """Bounds and choices. The suffix of a name is its unit.

    packet_bytes_max         largest packet that clients may send; advertised as Maximum Packet Size
    keep_alive_max_s         a longer keep-alive, or none, becomes this one (5.0: Server Keep Alive); 0: no maximum
    session_expiry_max_s     longest life of a session without a connection; also the expiry of CleanSession=0 of 3.1.1
    receive_maximum          QoS 1 and 2 messages of one client that may be in flight to the node; advertised
    window_max               QoS 1 and 2 messages in flight to one client; the client's Receive Maximum may lower it
    topic_alias_maximum      topic aliases that a client may set, and most that the node sets towards it
    client_id_bytes_max      a longer client id is refused
    unanswered_bytes_max     bytes of one client's messages that wait for the store; above this the client is not read
    output_bytes_max         bytes of QoS 0 messages that wait for a client that does not read; above this the oldest go
    accept_refused_publish   3.1.1 cannot refuse a PUBLISH. False: close the connection. True: acknowledge it, and LOSE it
    qos_max                  highest QoS that clients may publish with, and that subscriptions are granted
    retain_available         messages may be retained
    wildcards_available      filters may have wildcards
    shared_available         filters may be shared
    identifiers_available    filters may have subscription identifiers
    response_information     prefix of response topics for clients that request Response Information; %c is the client id
    redirect                 "": accept clients. "use-another", "moved": refuse them and send `server_reference`
    server_reference         another server as HOST or HOST:PORT; also sent to clients when this server stops
    hmac_passwords           a password may be Base64 of the HMAC-SHA1 of the client id, keyed by the password (rocketmq-mqtt)
    """

    packet_bytes_max: Annotated[int, Meta(ge=128, le=MQTT_PACKET_BYTES_MAX)] = MQTT_PACKET_BYTES_MAX
    keep_alive_max_s: Annotated[int, Meta(ge=0, le=65_535)] = 0
    session_expiry_max_s: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)] = 30 * 86_400
    receive_maximum: Count = 512
    window_max: Count = 1_024
    topic_alias_maximum: Annotated[int, Meta(ge=0, le=65_535)] = 64
    client_id_bytes_max: Annotated[int, Meta(ge=23, le=65_535)] = 1_024
    unanswered_bytes_max: Bytes = 8 * 1024 * 1024
    output_bytes_max: Bytes = 4 * 1024 * 1024
    accept_refused_publish: bool = False
    qos_max: Annotated[int, Meta(ge=0, le=2)] = 2
    retain_available: bool = True
    wildcards_available: bool = True
    shared_available: bool = True
    identifiers_available: bool = True
    response_information: Text = ""
    redirect: Literal["", "use-another", "moved"] = ""
    server_reference: Text = ""
    hmac_passwords: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a text longer than TEXT_BYTES_MAX bytes in UTF-8, or one that MQTT cannot carry as a string."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and (len(value.encode()) > TEXT_BYTES_MAX or "\x00" in value):
                raise ValueError(f"{field.name} is text of at most {TEXT_BYTES_MAX} bytes without a zero byte")
