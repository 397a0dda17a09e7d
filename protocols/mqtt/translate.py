"""PUBLISH to messages and records to PUBLISH: the mapping of MQTT's fields. See docs/protocols/mqtt.md."""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from typing import Final, final

from domain.address import is_path, topic_of_path
from domain.delivery.routed import FormKey, RoutedRecord
from domain.limits import BODY_BYTES_MAX, CLIENT_PROPERTIES_BYTES_MAX, DELAY_MS_MAX, MESSAGE_GROUP_BYTES_MAX
from domain.message import property as properties
from domain.message.message import RETAIN_DELETE, RETAIN_NONE, RETAIN_SET, Message
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.instant import INSTANT_MS_MAX, instant_ms, rfc3339
from protocols.compression import plain
from protocols.mqtt import cloudevent
from protocols.mqtt import property as props
from protocols.mqtt.inflated import InflatedForms
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import publish_parts
from protocols.mqtt.wire import V5, PacketError, put_varint, text

STORED_BYTES_MAX: Final = CLIENT_PROPERTIES_BYTES_MAX
"""Bytes of stored properties that a PUBLISH may bring, with its topic name and the client id."""
MESSAGE_GROUP: Final = "messageGroup"
DELIVERY_TIME: Final = "deliverytime"
KEY: Final = "mq-key"
TAG: Final = "mq-tag"
"""User properties with a meaning: the message group (ordering key), whose messages are in one queue, in order; the instant
before which the message is not delivered, RFC 3339 or epoch ms; the keys, separated by spaces; the tag."""
BRIDGES: Final = "$SYS/broker/connection/"
"""Topics below `$SYS` at which a bridge says whether it is connected, as its will and as a retained message. The node has no
values there, and filters that begin with a wildcard do not match them (4.7.2)."""
TAG_BYTES_MAX: Final = 127
_BODY: Final = -1
"""The key of a decompressed body in `InflatedForms`."""
_SECTION: Final = -2
"""The key of the property section that all receivers of a message have in common (5.0)."""
_V5_FORM: Final = 8
"""Added to the key of a PUBLISH that begins with that section; below it are those of earlier versions."""
_FORBIDDEN: Final = ("\x01", "\x02")


@final
class Route:
    """The mapping of one MQTT topic name, made once a connection.

    refusal   reason code that refuses every PUBLISH to it; 0: none
    stored    stored properties, indexed by QoS * 2 + RETAIN
    """

    __slots__ = ("refusal", "stored", "topic")

    def __init__(self, topic: str, refusal: int, stored: tuple[bytes, ...]) -> None:
        self.topic = topic
        self.refusal = refusal
        self.stored = stored


def route(name: bytes, client_id: str) -> Route:
    """The route of the topic name of a PUBLISH (mapping of topics: docs/protocols/mqtt.md).

    Raises PacketError 0x81 when `name` is not UTF-8, 0x90 when it is no topic name. U+0001 and U+0002 cannot be stored and are
    refused: a server may refuse control characters (1.5.4).
    """
    path = text(name)
    if not is_path(path) or "\x01" in path or "\x02" in path:
        raise PacketError(0x90, "not a topic name that can be published to")
    if path == "$SYS" or (path.startswith("$SYS/") and not path.startswith(BRIDGES)):
        return Route("", 0x87, ())
    stored = tuple(
        f"{_PATH}{path}\x02{properties.QOS_LEVEL}\x01{kind >> 1}\x02{_RETAINED[kind & 1]}"
        f"{properties.MQTT_CLIENT_ID}\x01{client_id}\x02{_CLIENT}{client_id}\x02".encode()
        for kind in range(6)
    )
    return Route(topic_of_path(path), 0, stored)


COMMON_TAG: Final = "MQTT_COMMON"
_TAG: Final = properties.entry(properties.TAGS, COMMON_TAG)
_PATH: Final = f"{_TAG.decode()}{properties.ORIGIN_MQTT_TOPIC}\x01"
_RETAINED: Final = ("", f"{properties.MQTT_RETAIN}\x01true\x02")
_CLIENT: Final = f"{properties.HG_PROTOCOL}\x01mqtt\x02{properties.HG_CLIENT}\x01"
_TEXT: Final = properties.HG_PAYLOAD_FORMAT_START + b"1\x02"


@final
class Content:
    """The message of a PUBLISH, without its topic.

    stored   its own stored properties, besides those of the route
    tagged   True: `stored` has its tag, or marks that it has none; False: it has that of MQTT messages
    empty    True: the payload is empty, which with RETAIN removes the latest value
    """

    __slots__ = ("body", "empty", "stored", "tagged")

    def __init__(self, body: bytes, stored: bytes = b"", tagged: bool = False, empty: bool = False) -> None:
        self.body = body
        self.stored = stored
        self.tagged = tagged
        self.empty = empty


def plain_message(where: Route, body: bytes, qos: int, retain: bool, born_host: bytes) -> Message:
    """The message of a PUBLISH without properties whose payload is not looked at."""
    kind = RETAIN_NONE if not retain else RETAIN_SET if body else RETAIN_DELETE
    return Message(where.topic, body, where.stored[qos << 1 | (1 if retain else 0)], born_host=born_host, retain=kind)


def message(where: Route, brought: Content, qos: int, retain: bool, born_host: bytes) -> Message:
    """The message to be stored."""
    kind = RETAIN_NONE if not retain else RETAIN_DELETE if brought.empty else RETAIN_SET
    stored = where.stored[qos << 1 | (1 if retain else 0)]
    if brought.stored:
        stored = (stored[len(_TAG) :] if brought.tagged else stored) + brought.stored
    return Message(where.topic, brought.body, stored, born_host=born_host, retain=kind)


def is_too_large(sent: Message) -> bool:
    """True when the properties of a message from its client, stored, are above STORED_BYTES_MAX."""
    stored = sent.properties
    return len(stored) > STORED_BYTES_MAX and properties.client_bytes(stored) > STORED_BYTES_MAX


def content(given: Properties, payload: bytes, version: int, now_ms: int) -> Content:
    """Payload and properties of a PUBLISH or a will -> the content of its message. Raises PacketError as `stored_form`."""
    if given is NONE:
        # Most payloads are not text that begins with a brace: they are not looked at.
        event = cloudevent.structured(payload, None) if version != V5 and payload[:1] == b"{" else None
        stored = None if event is None else cloudevent.stored_form(event, payload)
        if event is None or stored is None:
            return Content(payload, empty=not payload)
        return Content(event.data, stored, True)
    content_type = given.texts.get(props.CONTENT_TYPE, "")
    event = cloudevent.structured(payload, content_type)
    text = b"" if event is None else payload
    if event is None:
        event = cloudevent.binary(given, payload)
    stored = None if event is None else cloudevent.stored_form(event, text, content_type)
    if event is None or stored is None:
        own = stored_form(given, payload, now_ms, None)
        return Content(payload, own, properties.find(own, properties.TAGS_START) != b"", not payload)
    _check_due(properties.find(stored, properties.TIMER_DELIVER_MS_START), now_ms)
    return Content(event.data, stored + stored_form(given, payload, now_ms, event), True, not payload)


def stored_form(given: Properties, body: bytes, now_ms: int, event: CloudEvent | None) -> bytes:
    """MQTT 5 properties of a PUBLISH or a will -> stored properties, besides those of `event`, when it is one.

    Raises PacketError: 0x82 for a response topic with wildcards, 0x99 for a body with Payload Format Indicator 1 that is not
    UTF-8, 0x97 for properties above STORED_BYTES_MAX, 0x83 for a delivery time that is none or is more than 366 days ahead,
    0x81 for control characters that cannot be stored.
    """
    out: list[bytes] = []
    if given.numbers.get(props.PAYLOAD_FORMAT) == 1:
        _check_text(body)
        out.append(_TEXT)
    expiry_s = given.numbers.get(props.MESSAGE_EXPIRY)
    if expiry_s is not None:
        out.append(properties.entry(properties.HG_EXPIRE_MS, str(now_ms + 1000 * expiry_s)))
    for name, key in ((props.CONTENT_TYPE, properties.HG_CONTENT_TYPE), (props.RESPONSE_TOPIC, properties.HG_REPLY_TO)):
        value = given.texts.get(name, "")
        if value and not (event is not None and name == props.CONTENT_TYPE):
            if any(mark in value for mark in _FORBIDDEN):
                raise PacketError(0x81, "U+0001 or U+0002 in a string")
            out.append(properties.entry(key, value))
    if not is_path(given.texts.get(props.RESPONSE_TOPIC, "-")):
        raise PacketError(0x82, "a response topic that is none")
    correlation = given.blobs.get(props.CORRELATION_DATA)
    if correlation:
        out.append(properties.entry(properties.HG_CORRELATION, base64.b64encode(correlation).decode()))
    if given.user:
        out.append(_user_form(given.user, event, now_ms))
    joined = b"".join(out)
    if len(joined) > STORED_BYTES_MAX:
        raise PacketError(0x97, f"the properties have {len(joined)} bytes when stored, {STORED_BYTES_MAX:,} are allowed")
    return joined


def _check_text(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError:
        raise PacketError(0x99, "the payload is not UTF-8") from None


def _user_form(pairs: list[tuple[str, str]], event: CloudEvent | None, now_ms: int) -> bytes:
    """User properties -> stored properties: all pairs in order as JSON in `extData`, and each storable pair by its own name.

    Those with a meaning become other properties, and attributes of `event` are stored already. Raises PacketError 0x83.
    """
    counts = Counter([key for key, _ in pairs])
    out = [properties.entry(properties.EXT_DATA, json.dumps(pairs, ensure_ascii=False, separators=(",", ":")))]
    known = {} if event is None else event.attributes
    for key, value in pairs:
        if not properties.is_storable(key, value) or properties.is_reserved(key) or counts[key] > 1 or key.encode() in known:
            continue
        if key == MESSAGE_GROUP and len(value.encode()) <= MESSAGE_GROUP_BYTES_MAX:
            if b"partitionkey" not in known:
                out.append(properties.entry(properties.SHARDING_KEY, value))
        elif key == DELIVERY_TIME:
            due_ms = b"%d" % instant_ms(value.encode())
            _check_due(due_ms, now_ms)
            out.append(properties.TIMER_DELIVER_MS_START + due_ms + b"\x02")
        elif key == KEY and event is None:
            out.append(properties.entry(properties.KEYS, value))
        elif key == TAG and event is None and "|" not in value and len(value.encode()) <= TAG_BYTES_MAX:
            out.append(properties.entry(properties.TAGS, value))
        else:
            out.append(properties.entry(key, value))
    return b"".join(out)


def _check_due(due_ms: bytes, now_ms: int) -> None:
    """Raises PacketError 0x83 when a delivery time is no instant, or too far ahead. A will has no time yet: `now_ms` is 0."""
    if due_ms and (due_ms[:1] == b"-" or (now_ms and int(due_ms) - now_ms > DELAY_MS_MAX)):
        raise PacketError(0x83, "the delivery time is no instant, or more than 366 days ahead")


def _inflated(routed: RoutedRecord, inflated: InflatedForms) -> bytes | None:
    """The payload of a compressed message; None when it cannot be decompressed."""
    form = inflated.get(routed, _BODY)
    if form is not None:
        return form[0]
    body = plain(routed.record, BODY_BYTES_MAX)
    if body is not None:
        inflated.put(routed, _BODY, (body, b""))
    return body


def parts(
    routed: RoutedRecord,
    version: int,
    level: int,
    retained: bool,
    identifiers: tuple[int, ...],
    now_ms: int,
    alias: int,
    inflated: InflatedForms,
) -> tuple[bytes, bytes] | None:
    """A PUBLISH as (bytes before the packet identifier, bytes after it), shared by all receivers of the same delivery.

    At level 0 the whole packet is in the first part. None when the body cannot be decompressed.

    level         QoS
    identifiers   subscription identifiers of the receiver
    now_ms        wall clock, epoch ms: Message Expiry Interval is counted from it
    alias         topic alias (5.0). 0: none; positive: this packet sets it; negative: it replaces the topic name
    inflated      where the encodings of compressed messages are kept; those of others are kept at their record
    """
    plain = level << 1 | (1 if retained else 0)
    key: FormKey = plain
    left_s = -1
    if version == V5:
        left_s = routed.seconds_left(now_ms)
        key = plain | _V5_FORM if left_s < 0 and not alias and not identifiers else (plain, left_s, alias, *identifiers)
    form = routed.forms.get(key)
    if form is None:
        compressed = routed.compressed
        if compressed:
            form = inflated.get(routed, key)
            if form is not None:
                return form
        body = _inflated(routed, inflated) if compressed else routed.record.body
        if body is None:
            return None
        section = b""
        text = None
        is_event = properties.has(routed.stored, properties.CE_SPECVERSION_START)
        if is_event and (version != V5 or cloudevent.is_structured(routed.stored)):
            text = cloudevent.payload(routed.stored, body, version == V5)
            body = body if text is None else text[1]
        if version == V5:
            section = _section(routed, left_s, identifiers, abs(alias), "" if text is None else text[0])
        head, tail = publish_parts(b"" if alias < 0 else routed.path.encode(), body, section, level, retained)
        form = (head, tail) if level else (head + tail, b"")
        if compressed:
            inflated.put(routed, key, form)
        else:
            routed.forms[key] = form
    return form


def _section(routed: RoutedRecord, left_s: int, identifiers: tuple[int, ...], alias: int, structured_type: str) -> bytes:
    """The property section of a delivery (3.3.2.3). `structured_type`: Content Type of a structured event, "" for others."""
    form = routed.forms.get(_SECTION)
    if form is None:
        form = (props.encode(_stored_to_mqtt(routed.stored, structured_type)), b"")
        routed.forms[_SECTION] = form
    if left_s < 0 and not identifiers and not alias:
        return form[0]
    more = Properties()
    if alias:
        more.numbers[props.TOPIC_ALIAS] = alias
    if left_s >= 0:
        more.numbers[props.MESSAGE_EXPIRY] = min(left_s, 0xFFFFFFFF)
    more.subscription_ids = list(identifiers)
    own = _without_length(form[0])
    added = _without_length(props.encode(more))
    return put_varint(len(own) + len(added)) + added + own


def _without_length(section: bytes) -> bytes:
    at = 0
    while section[at] > 127:
        at += 1
    return section[at + 1 :]


def _stored_to_mqtt(stored: bytes, structured_type: str) -> Properties:
    """Stored properties -> the PUBLISH properties that are the same for every subscriber at every time (5.0)."""
    out = Properties()
    if properties.find(stored, properties.HG_PAYLOAD_FORMAT_START) == b"1":
        out.numbers[props.PAYLOAD_FORMAT] = 1
    content_type = structured_type or properties.content_type(stored)
    if content_type and "\x00" not in content_type:
        out.texts[props.CONTENT_TYPE] = content_type
    reply_to = properties.text(stored, properties.HG_REPLY_TO)
    if is_path(reply_to):
        out.texts[props.RESPONSE_TOPIC] = reply_to
    correlation = properties.find(stored, properties.HG_CORRELATION_START)
    if correlation:
        try:
            out.blobs[props.CORRELATION_DATA] = base64.b64decode(correlation, validate=True)
        except binascii.Error:
            out.blobs.pop(props.CORRELATION_DATA, None)
    out.user = _user_pairs(stored, structured_type != "")
    return out


def _user_pairs(stored: bytes, structured: bool) -> list[tuple[str, str]]:
    """User properties: the ordered list that an MQTT 5 client sent, else those set by clients of other protocols."""
    given = properties.find(stored, properties.EXT_DATA_START)
    if given:
        try:
            pairs = json.loads(given)
        except (ValueError, RecursionError):
            pairs = None
        if isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return [(key, value) for key, value in pairs if _is_text(key) and _is_text(value)]
    return [(key, value) for key, value in _pairs_of(stored, structured).items() if _is_text(key) and _is_text(value)]


def _pairs_of(stored: bytes, structured: bool) -> dict[str, str]:
    """User properties of a message that no MQTT 5 client sent. Attributes of an event go before properties of the same names.

    `structured`: the payload has the attributes.
    """
    attributes = cloudevent.attributes(stored)
    out = {} if structured else dict(attributes)
    for name, value in properties.user(stored).items():
        if not (attributes and name.startswith(properties.CE_PREFIX)) and not (structured and name in attributes):
            out.setdefault(name, value)
    group = properties.text(stored, properties.SHARDING_KEY)
    if group and group != attributes.get("partitionkey"):
        out.setdefault(MESSAGE_GROUP, group)
    if attributes:
        return out
    due = properties.find(stored, properties.TIMER_DELIVER_MS_START) or properties.find(stored, properties.TIMER_OUT_MS_START)
    if due.isdigit() and int(due) <= INSTANT_MS_MAX:
        out.setdefault(DELIVERY_TIME, rfc3339(int(due)))
    for name, key in ((KEY, properties.KEYS), (TAG, properties.TAGS)):
        value = properties.text(stored, key)
        if value and value != COMMON_TAG:
            out.setdefault(name, value)
    return out


def _is_text(value: object) -> bool:
    """True for a value that MQTT can carry as a string: other protocols may have stored any value."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
