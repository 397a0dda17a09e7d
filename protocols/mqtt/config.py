"""The MQTT adapter's own settings: table `[mqtt]` of the configuration file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from domain.errors import ConfigError
from domain.limits import MQTT_PACKET_BYTES_MAX


@dataclass(frozen=True, slots=True)
class MqttConfig:
    """Bounds and choices. Seconds, bytes and counts, as the names say.

    packet_bytes_max             largest packet taken; advertised; at most 4 MiB + 64 KiB
    keep_alive_max_s             a longer keep-alive, or none, becomes this one (5.0: Server Keep Alive); 0: no maximum
    session_expiry_max_s         longest life of a session without a connection; what CleanSession=0 of 3.1.1 gets
    receive_maximum              unfinished QoS 1 and 2 messages that we take from one client at once
    window_max                   the same towards the client, which may want fewer
    topic_alias_maximum          topic aliases that a client may use, and at most used towards it
    client_id_bytes_max          longer client ids are refused
    unanswered_bytes_max         bodies not stored yet, above which one client is not read any further
    output_bytes_max             bytes that wait for a client that does not read: QoS 0 is dropped above this, oldest first
    accept_refused_publish       3.1.1 has no word for a refused PUBLISH. False: close. True: acknowledge it, and LOSE it
    qos_max                      highest QoS that clients may publish with, and that filters are granted
    retain_available             messages may be retained; wildcards_available, shared_available, identifiers_available: filters
                                 may have wildcards, be shared, have subscription identifiers
    response_information         what a client that asks is told to begin its response topics with; %c is its client id
    redirect                     "": clients are taken. "use-another", "moved": they are refused, and told `server_reference`
    server_reference             another server, as HOST or HOST:PORT; clients are told when this one stops
    hmac_passwords               a password may be Base64 of HMAC-SHA1 of the client id by the user's, as rocketmq-mqtt has it
    """

    packet_bytes_max: int = MQTT_PACKET_BYTES_MAX
    keep_alive_max_s: int = 0
    session_expiry_max_s: int = 30 * 86_400
    receive_maximum: int = 512
    window_max: int = 1_024
    topic_alias_maximum: int = 64
    client_id_bytes_max: int = 1_024
    unanswered_bytes_max: int = 8 * 1024 * 1024
    output_bytes_max: int = 4 * 1024 * 1024
    accept_refused_publish: bool = False
    qos_max: int = 2
    retain_available: bool = True
    wildcards_available: bool = True
    shared_available: bool = True
    identifiers_available: bool = True
    response_information: str = ""
    redirect: str = ""
    server_reference: str = ""
    hmac_passwords: bool = False


_DEFAULTS: Final = MqttConfig()
TEXT_BYTES_MAX: Final = 1_024
REDIRECTIONS: Final = ("", "use-another", "moved")

_RANGES: Mapping[str, tuple[int, int]] = {
    "packet_bytes_max": (128, MQTT_PACKET_BYTES_MAX),
    "keep_alive_max_s": (0, 65_535),
    "session_expiry_max_s": (0, 0xFFFFFFFF),
    "receive_maximum": (1, 65_535),
    "window_max": (1, 65_535),
    "topic_alias_maximum": (0, 65_535),
    "client_id_bytes_max": (23, 65_535),
    "unanswered_bytes_max": (1, 1 << 40),
    "output_bytes_max": (1, 1 << 40),
    "qos_max": (0, 2),
}


def read(options: Mapping[str, object]) -> MqttConfig:
    """Options -> config. Raises ConfigError for an unknown name, a wrong type or a value out of range."""
    known = [each.name for each in fields(MqttConfig)]
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
            raise ConfigError(f"mqtt has no option {name!r}{hint}")
        kind = type(getattr(_DEFAULTS, name))
        if kind is bool and not isinstance(value, bool):
            raise ConfigError(f"mqtt.{name} must be true or false, not {value!r}")
        if kind is str and (not isinstance(value, str) or len(value.encode()) > TEXT_BYTES_MAX or "\x00" in value):
            raise ConfigError(f"mqtt.{name} must be text of at most {TEXT_BYTES_MAX} bytes, not {value!r}")
        if kind is int:
            least, most = _RANGES[name]
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ConfigError(f"mqtt.{name} must be a whole number from {least} to {most}, not {value!r}")
        values[name] = value
    config = MqttConfig(**values)
    if config.redirect not in REDIRECTIONS:
        raise ConfigError(f"mqtt.redirect must be one of {', '.join(map(repr, REDIRECTIONS))}, not {config.redirect!r}")
    return config
