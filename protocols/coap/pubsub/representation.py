"""Topics as CBOR maps, `application/core-pubsub+cbor` (draft-ietf-core-coap-pubsub-20, section 5), and bodies of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from domain.topic.data_topic import RESOURCE_TYPE, DataTopic, TopicProperties
from protocols.coap.message import cbor, message
from protocols.coap.message.cbor import CborError, Tagged
from protocols.coap.message.media import CBOR
from protocols.coap.message.option import ABSENT, Fault, Options

ROOT: Final = "ps"
DATA: Final = "data"
FORMAT: Final = 606
"""Content-Format of the draft."""
NAME, TOPIC_DATA, KIND, CONTENT_FORMAT, TYPE, EXPIRES, SUBSCRIBERS, CHECK, INITIALIZE, FILTER = range(10)
"""Keys of the map: topic-name, topic-data, resource-type, topic-content-format, topic-type, expiration-date, max-subscribers,
observer-check, initialize, conf-filter."""
_EPOCH: Final = 1
_NUMBERS: Final = (CONTENT_FORMAT, SUBSCRIBERS, CHECK)
_TEXTS: Final = (NAME, TOPIC_DATA, KIND, TYPE)


@final
class Given:
    """A map of a request.

    name         topic-name; "": absent
    identity     the id in topic-data; "": absent
    foreign      True: topic-data is not a resource of this server
    kind         resource-type; "": absent
    properties   the other properties
    """

    __slots__ = ("foreign", "identity", "kind", "name", "properties")

    def __init__(self, table: dict[int, Any]) -> None:
        self.name: str = table.get(NAME, "")
        self.kind: str = table.get(KIND, "")
        where: str = table.get(TOPIC_DATA, "")
        self.identity = where.removeprefix(f"/{ROOT}/{DATA}/")
        self.foreign = where != "" and self.identity in ("", where)
        seconds = table[EXPIRES].value if EXPIRES in table else None
        self.properties = TopicProperties(
            table.get(CONTENT_FORMAT),
            table.get(TYPE),
            None if seconds is None else int(seconds * 1000),
            table.get(SUBSCRIBERS),
            table.get(CHECK),
            table.get(INITIALIZE),
        )


def read(options: Options, body: bytes) -> Given | Fault:
    """Map of a request, or Fault: 4.15 for another format, 4.00 for a body that is no map, or an unknown key or value."""
    found = _decoded(options, body)
    if isinstance(found, Fault):
        return found
    if not isinstance(found, dict):
        return Fault(message.BAD_REQUEST, "the body is a CBOR map of topic properties")
    for key, value in found.items():
        wrong = _wrong(key, value)
        if wrong:
            return Fault(message.BAD_REQUEST, wrong)
    return Given(found)


def wanted(options: Options, body: bytes) -> Sequence[int] | Fault:
    """Keys requested by a FETCH of a topic: the map {9: [keys]} of revision 20, or the array of revision 21."""
    found = _decoded(options, body)
    if isinstance(found, Fault):
        return found
    keys = found.get(FILTER) if isinstance(found, dict) and len(found) == 1 else found
    if not isinstance(keys, list) or not all(type(key) is int and NAME <= key <= INITIALIZE for key in keys):
        return Fault(message.BAD_REQUEST, "the body is conf-filter: an array of the keys 0 to 8")
    return keys


def _decoded(options: Options, body: bytes) -> Any:
    if options.content_format not in (ABSENT, FORMAT, CBOR):
        return Fault(message.UNSUPPORTED_FORMAT, "the body is application/core-pubsub+cbor (606)")
    try:
        return cbor.decode(body)
    except CborError as error:
        return Fault(message.BAD_REQUEST, f"the body is no CBOR: {error}")


def _wrong(key: Any, value: Any) -> str:
    """Error text of an invalid property; "" for a valid one."""
    if type(key) is not int or not NAME <= key <= INITIALIZE:
        return "a topic property is not known: keys are 0 to 8"
    if key in _NUMBERS:
        good = type(value) is int and value >= 0
    elif key in _TEXTS:
        good = isinstance(value, str)
    elif key == INITIALIZE:
        good = isinstance(value, bytes)
    else:
        good = isinstance(value, Tagged) and value.tag == _EPOCH and _is_date(value.value)
    return "" if good else f"the value of topic property {key} is of another type, or out of its range"


def _is_date(value: Any) -> bool:
    """True for a valid number of seconds since 1970; False for NaN and infinities."""
    return type(value) in (int, float) and 0 <= value <= 1 << 42


def data_path(identity: str) -> str:
    """The value of topic-data."""
    return f"/{ROOT}/{DATA}/{identity}"


def table(topic: DataTopic) -> dict[int, Any]:
    """All properties of a topic, by their keys in ascending order."""
    given = topic.given
    found: dict[int, Any] = {NAME: topic.name, TOPIC_DATA: data_path(topic.id), KIND: RESOURCE_TYPE}
    expires = None
    if given.expires_ms is not None:
        seconds, rest = divmod(given.expires_ms, 1000)
        expires = Tagged(_EPOCH, given.expires_ms / 1000 if rest else seconds)
    optional = (
        (CONTENT_FORMAT, given.content_format),
        (TYPE, given.type),
        (EXPIRES, expires),
        (SUBSCRIBERS, given.max_subscribers),
        (CHECK, topic.check_s),
        (INITIALIZE, given.initialize),
    )
    found.update((key, value) for key, value in optional if value is not None)
    return found


def encoded(topic: DataTopic, keys: Sequence[int] | None = None) -> bytes:
    """Representation of a topic with the properties of `keys`; None: all but `initialize`, which may be long."""
    if keys is None:
        keys = range(INITIALIZE)
    return cbor.encode({key: value for key, value in table(topic).items() if key in keys})


def links(ids: Sequence[str], data: bool) -> bytes:
    """Link list of topics, or of their data (RFC 6690)."""
    place = f"/{ROOT}/{DATA}" if data else f"/{ROOT}"
    return ",".join(f"<{place}/{identity}>" for identity in ids).encode()
