"""Publishers of messages, as the stored properties name them."""

from __future__ import annotations

from domain.client.mqtt_session import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
)
from domain.message import property as properties


def level_of(stored: bytes) -> int:
    """QoS of the publisher, from property `qosLevel`; AT_LEAST_ONCE for messages that did not arrive by MQTT."""
    value = properties.find(stored, properties.QOS_LEVEL_START)
    if value == b"0":
        return AT_MOST_ONCE
    return EXACTLY_ONCE if value == b"2" else AT_LEAST_ONCE


def is_from(stored: bytes, client_id: str, user: str) -> bool:
    """True when the MQTT client `client_id` of `user` published the message. `user` "": whoever it was of."""
    return (
        properties.find(stored, properties.HG_CLIENT_START) == client_id.encode()
        and properties.find(stored, properties.HG_PROTOCOL_START) == b"mqtt"
        and (
            not user
            or not properties.is_storable(properties.HG_PRINCIPAL, user)
            or properties.find(stored, properties.HG_PRINCIPAL_START) == user.encode()
        )
    )
