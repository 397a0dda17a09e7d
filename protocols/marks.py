"""Content type, expiry and retention of a message as properties of SDKs, whose protocols have no other place for them.

`mq-content-type` is a media type, `mq-expires-at` an instant: RFC 3339 or epoch milliseconds. They are stored like those of the
other protocols, as HG_CONTENT_TYPE and HG_EXPIRE_MS, and get these names again when an SDK receives the message. `mqttRetain`
with the value `true` makes the message the latest value of its path; it is stored under this name, by every protocol.
"""

from __future__ import annotations

from typing import Final

from domain.address import is_derived_topic, is_system_topic
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET
from protocols.cloudevents.instant import INSTANT_MS_MAX, instant_ms, rfc3339, rfc3339_ms

NAMES: Final = (properties.CONTENT_TYPE, properties.EXPIRES_AT)
SDK_NAMES: Final = (*NAMES, properties.MQTT_RETAIN)
"""Names of properties that SDKs set and get, and clients of other protocols do not."""
_SET: Final = b"true"
_PREFIX: Final = properties.MARK_PREFIX.encode()


def may_have_marks(stored: bytes) -> bool:
    """False when no property of an SDK's message can be one that `stored_form` replaces; a cheap test."""
    return properties.has(stored, _PREFIX) or properties.has(stored, properties.CE_EXPIRYTIME_START)


def retain_of(topic: str, stored: bytes) -> int:
    """RETAIN_SET when an SDK's message to `topic` is to become the latest value of its path, else RETAIN_NONE.

    Copies for retries and dead letters keep the properties of the message, and set nothing.
    """
    if not properties.has(stored, properties.MQTT_RETAIN_START):
        return RETAIN_NONE
    if properties.find(stored, properties.MQTT_RETAIN_START) != _SET or is_derived_topic(topic) or is_system_topic(topic):
        return RETAIN_NONE
    return RETAIN_SET


def stored_form(stored: bytes) -> bytes:
    """Properties as an SDK sent them, each ended by U+0002 -> as they are stored.

    The `expirytime` of an event is its expiry, unless the sender names one beside it. Raises ValueError, with a text for the
    sender, when `mq-expires-at` is no instant.
    """
    content_type = properties.find(stored, properties.CONTENT_TYPE_START)
    expires_at = properties.find(stored, properties.EXPIRES_AT_START)
    expire_ms = 0
    if expires_at:
        expire_ms = instant_ms(expires_at)
        if expire_ms <= 0:
            raise ValueError(f"property {properties.EXPIRES_AT} must be RFC 3339 or epoch milliseconds")
    elif properties.has(stored, properties.CE_SPECVERSION_START):
        expire_ms = rfc3339_ms(properties.find(stored, properties.CE_EXPIRYTIME_START))
    if content_type or expires_at:
        stored = properties.without(stored, NAMES)
    if content_type:
        stored += properties.HG_CONTENT_TYPE_START + content_type + properties.ENTRY_END
    if expire_ms > 0:
        stored += properties.HG_EXPIRE_MS_START + b"%d\x02" % expire_ms
    return stored


def entries(stored: bytes) -> bytes:
    """The entries that an SDK gets for content type and expiry; b"" when the message has neither.

    The content type of an event is its CE_datacontenttype and is not repeated.
    """
    out = b""
    content_type = properties.find(stored, properties.HG_CONTENT_TYPE_START)
    if content_type and content_type != properties.find(stored, properties.CE_DATACONTENTTYPE_START):
        out = properties.CONTENT_TYPE_START + content_type + properties.ENTRY_END
    expire = properties.find(stored, properties.HG_EXPIRE_MS_START)
    if expire.isdigit() and len(expire) <= 15 and int(expire) <= INSTANT_MS_MAX:
        out += properties.EXPIRES_AT_START + rfc3339(int(expire)).encode() + properties.ENTRY_END
    return out
