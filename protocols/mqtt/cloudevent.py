"""CloudEvents in MQTT 5, binary mode (CloudEvents MQTT binding 1.0.2, 3.1): attributes are user properties of the same names.

Structured mode does not use this module: the payload is the whole event and Content Type names its format.
"""

from __future__ import annotations

from domain import property as properties
from protocols.cloudevents.event import CloudEventError, check, check_name, check_value
from protocols.mqtt import property as props
from protocols.mqtt.property import Properties

_MARK = "specversion"


def stored(given: Properties) -> bytes:
    """User properties that are the attributes of an event -> stored properties; b"" when they are not.

    User properties may have any names, so a message that is not an event is not an error.
    """
    if not any(key == _MARK for key, _ in given.user):
        return b""
    attributes = {key.encode(): value.encode() for key, value in given.user}
    if len(attributes) != len(given.user) or b"datacontenttype" in attributes:
        return b""
    content_type = given.texts.get(props.CONTENT_TYPE, "")
    if content_type:
        attributes[b"datacontenttype"] = content_type.encode()
    try:
        for name, value in attributes.items():
            check_name(name)
            check_value(name, value)
        check(attributes)
    except CloudEventError:
        return b""
    kept = {name.decode(): value.decode() for name, value in attributes.items() if value}
    return b"".join(properties.entry(properties.CE_PREFIX + name, value) for name, value in kept.items())


def attributes_of(record: bytes) -> list[tuple[str, str]]:
    """Stored properties of an event that another protocol published -> user properties of a PUBLISH; [] when it is no event."""
    if properties.CE_SPECVERSION_START not in record:
        return []
    found: list[tuple[str, str]] = []
    for piece in record.split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name[:3] == properties.CE_BYTES and name != b"CE_datacontenttype":
            found.append((name[3:].decode("utf-8", "replace"), value.decode("utf-8", "replace")))
    return found
