"""CloudEvents in MQTT 5, binary mode (CloudEvents MQTT binding 1.0.2, 3.1): attributes are user properties of the same names.

Structured mode does not use this module: the payload is the whole event and Content Type names its format.
"""

from __future__ import annotations

from domain import property as properties
from protocols.cloudevents.event import CloudEventError, check, check_name, check_value
from protocols.cloudevents.message import attributes_of
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


def user_pairs(record: bytes) -> list[tuple[str, str]]:
    """Stored properties that another protocol gave a message -> user properties of a PUBLISH.

    Attributes of an event have their own names. They go before properties of the application with the same names.
    """
    user = properties.user(record)
    attributes = attributes_of(record)
    if not attributes:
        return list(user.items())
    out = {name.decode(): value.decode() for name, value in attributes.items() if name != b"datacontenttype"}
    for name, value in user.items():
        if not name.startswith(properties.CE_PREFIX):
            out.setdefault(name, value)
    return list(out.items())
