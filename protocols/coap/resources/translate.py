"""Conversion of path, queries and format of a request to message fields, and of stored messages to representations."""

from __future__ import annotations

import hashlib
from typing import Final, final

from domain import address, limits
from domain.message import property as properties
from domain.message import receipt as receipts
from domain.message.message import RETAIN_SET, Message
from domain.message.receipt import Receipt
from domain.message.record import Record
from protocols import compression
from protocols.coap.blockwise import blockwise
from protocols.coap.message import media, message, option
from protocols.coap.message.message import Pairs
from protocols.coap.message.option import Fault, Options

ROOT: Final = "mq"
INVISIBLE_MS: Final = 30_000
ID_BYTES: Final = 32
"""Characters of the gateway's message ids."""
LEASE_BYTES: Final = 160
"""Bytes of a response with a lease, without its group: header, options with the receipt, and a block of 16 bytes."""
_RETAINED: Final = properties.entry(properties.MQTT_RETAIN, "true")
_FORBIDDEN: Final = "/+#\x00\x01\x02"
_MARKS: Final = (
    properties.UNIQ_KEY_START, properties.ORIGIN_MQTT_TOPIC_START, properties.SHARDING_KEY_START, properties.PRIORITY_START,
    properties.IDEMPOTENCY_KEY_START, properties.DELAY_MARK,
)  # fmt: skip
"""Property names that affect the storing of a message."""


def path_of(options: Options) -> str | Fault:
    """The MQTT topic of `/mq/…`: each Uri-Path option is one level, without escapes or normalisation. Fault 4.00 or 4.04."""
    levels = options.path
    if not levels or levels[0] != ROOT:
        return Fault(message.NOT_FOUND, "resources are /mq/{topic}, /ps and /.well-known/core")
    path = "/".join(levels[1:])
    if path == "":
        return Fault(message.NOT_FOUND, "name a topic: /mq/{topic}")
    for level in levels[1:]:
        if level in (".", "..") or any(char in level for char in _FORBIDDEN):
            return Fault(message.BAD_REQUEST, "a path segment may not be . or .. nor hold / + # U+0000 U+0001 U+0002")
    if not address.is_path(path):
        return Fault(message.BAD_REQUEST, "the path is too long or too deep")
    return path


@final
class Publication:
    """Message fields from the options of a POST or PUT, created once for all requests with the same option bytes.

    path        the MQTT topic
    topic       the stored topic
    properties  stored properties, without those that depend on the time
    location    encoded Location-Path options of the path, and the head of the one for a message id of ID_BYTES
    delay_ms    delay of delivery; 0: none
    ttl_ms      life of the message after delivery; 0: unbounded
    no_id       True: answer 2.04 without the message id
    typed       True: the message has a message group or a delay, and the topic must accept that type
    plain       True: no property affects the storing (`domain.message.message.Message`)
    """

    __slots__ = ("delay_ms", "location", "no_id", "path", "plain", "properties", "topic", "ttl_ms", "typed")

    def __init__(self, path: str, stored: bytes, location: bytes, delay_ms: int, ttl_ms: int, no_id: bool, typed: bool) -> None:
        self.path = path
        self.topic = address.topic_of_path(path)
        self.properties = stored
        self.location = location
        self.delay_ms = delay_ms
        self.ttl_ms = ttl_ms
        self.no_id = no_id
        self.typed = typed
        self.plain = not delay_ms and not any(properties.has(stored, mark) for mark in _MARKS)

    def message(self, body: bytes, born_host: bytes, retain: int, wall_ms: int) -> Message:
        """Message with payload `body`. `wall_ms`: epoch ms from which delay and expiry count."""
        stored = self.properties
        if retain == RETAIN_SET:
            stored += _RETAINED
        if self.delay_ms or self.ttl_ms:
            if self.delay_ms:
                stored += properties.entry(properties.TIMER_DELIVER_MS, str(wall_ms + self.delay_ms))
            if self.ttl_ms:
                stored += properties.entry(properties.HG_EXPIRE_MS, str(wall_ms + self.delay_ms + self.ttl_ms))
        return Message(self.topic, body, stored, born_host=born_host, retain=retain, plain=self.plain)


def publication(options: Options) -> Publication | Fault:
    """Options of a POST or PUT -> Publication, or the Fault that refuses the request. Kept in `options.plan`."""
    plan = options.plan
    if plan is None:
        plan = options.plan = _publication(options)
    assert isinstance(plan, (Publication, Fault))
    return plan


def _publication(options: Options) -> Publication | Fault:
    path = path_of(options)
    if isinstance(path, Fault):
        return path
    if path == "$SYS" or path.startswith("$SYS/"):
        return Fault(message.FORBIDDEN, "$SYS is the server's own")
    return publication_at(path, options)


def publication_at(path: str, options: Options) -> Publication | Fault:
    """Options of a POST or PUT whose message is on `path` -> Publication, or the Fault that refuses the request."""
    values = _queries(options.query)
    if isinstance(values, Fault):
        return values
    pairs: list[tuple[str, str]] = [(properties.HG_PROTOCOL, "coap")]
    if path != address.topic_of_path(path):
        pairs.append((properties.ORIGIN_MQTT_TOPIC, path))
    if options.content_format != option.ABSENT:
        pairs.append((properties.HG_CONTENT_TYPE, media.content_type(options.content_format)))
    durations = {"delay_ms": 0, "ttl_ms": 0}
    for name, value in values.items():
        if name in durations:
            number = _duration(value, limits.DELAY_MS_MAX)
            if number < 0:
                return Fault(message.BAD_REQUEST, f"{name} must be milliseconds from 0 to {limits.DELAY_MS_MAX}")
            durations[name] = number
        elif name == "mg" and len(value.encode()) > limits.MESSAGE_GROUP_BYTES_MAX:
            return Fault(message.BAD_REQUEST, f"mg has at most {limits.MESSAGE_GROUP_BYTES_MAX} bytes")
        elif name != "no-id":
            key = _NAMES.get(name, f"q.{name}")
            if not properties.is_storable(key, value):
                return Fault(message.BAD_REQUEST, f"query {name!r} needs a value, without U+0001 and U+0002")
            pairs.append((key, value))
    stored = properties.encode(pairs)
    if properties.client_bytes(stored) > limits.CLIENT_PROPERTIES_BYTES_MAX:
        return Fault(message.BAD_REQUEST, "queries are too long together")
    levels = [(option.LOCATION_PATH, level.encode()) for level in options.path]
    location = message.join([*levels, (option.LOCATION_PATH, bytes(ID_BYTES))])[:-ID_BYTES]
    typed = "mg" in values or durations["delay_ms"] > 0
    return Publication(path, stored, location, durations["delay_ms"], durations["ttl_ms"], "no-id" in values, typed)


_NAMES: Final = {
    "key": properties.KEYS, "tag": properties.TAGS, "mg": properties.SHARDING_KEY,
    properties.TRACEPARENT: properties.TRACEPARENT, properties.TRACESTATE: properties.TRACESTATE,
}  # fmt: skip


def _queries(queries: list[str]) -> dict[str, str] | Fault:
    values: dict[str, str] = {}
    for text in queries:
        name, _, value = text.partition("=")
        if name == "" or name in values:
            return Fault(message.BAD_REQUEST, "a query is repeated or has no name")
        values[name] = value
    return values


def _duration(text: str, most: int) -> int:
    """A decimal number from 0 to `most`; -1 for anything else."""
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        return -1
    number = int(text)
    return number if number <= most else -1


@final
class Reception:
    """A GET with `group=`, which leases one message of `topic` for consumer group `group`, or a DELETE, which settles one.

    wait_ms        time limit of the long poll
    invisible_ms   duration of the lease
    from_first     start of a group without a position: True at the first message, False at the last one
    receipt        receipt of the lease that a DELETE settles; None: absent
    """

    __slots__ = ("from_first", "group", "invisible_ms", "receipt", "topic", "wait_ms")

    def __init__(
        self, group: str, topic: str, wait_ms: int, invisible_ms: int, from_first: bool, receipt: Receipt | None
    ) -> None:
        self.group = group
        self.topic = topic
        self.wait_ms = wait_ms
        self.invisible_ms = invisible_ms
        self.from_first = from_first
        self.receipt = receipt

    def location(self, receipt: Receipt) -> Pairs:
        """Options that name the lease of a response, relative to the request path: a DELETE there settles the lease."""
        return [(option.LOCATION_QUERY, text.encode()) for text in (f"group={self.group}", f"receipt={receipt.text()}")]


def reception(options: Options) -> Reception | Fault | None:
    """Decode the queries `group`, `wait_ms` (or `wait`, seconds), `invisible_ms`, `from` and `receipt`; None without `group`.

    Ignores queries with other names. Returns a Fault (4.00) for invalid values.
    """
    if not any(text.startswith("group=") for text in options.query):
        return None
    values = _queries(options.query)
    if isinstance(values, Fault):
        return values
    group = values["group"]
    if not address.is_group(group):
        return Fault(message.BAD_REQUEST, "group names a consumer group: 1 to 120 of A-Z a-z 0-9 % | _ -")
    if len(options.path) != 2 or options.path[0] != ROOT or not address.is_topic(options.path[1]):
        return Fault(message.BAD_REQUEST, "a group receives from a whole topic: /mq/{topic}?group=")
    wait_ms = _duration(values["wait"], limits.WAIT_MS_MAX // 1000) * 1000 if "wait" in values else 0
    if "wait_ms" in values:
        wait_ms = _duration(values["wait_ms"], limits.WAIT_MS_MAX)
    invisible_ms = _duration(values.get("invisible_ms", str(INVISIBLE_MS)), limits.INVISIBLE_MS_MAX)
    if wait_ms < 0 or invisible_ms <= 0:
        return Fault(message.BAD_REQUEST, "wait is at most 30 s, invisible_ms from 1 ms to 12 h")
    begin = values.get("from", "first")
    if begin not in ("first", "last"):
        return Fault(message.BAD_REQUEST, "from is first or last")
    receipt = receipts.parse(values["receipt"]) if "receipt" in values else None
    if receipt is None and "receipt" in values:
        return Fault(message.BAD_REQUEST, "receipt is none that a GET with this group was answered with")
    return Reception(group, options.path[1], wait_ms, invisible_ms, begin == "first", receipt)


@final
class Representation:
    """A stored message as the representation of a CoAP resource.

    etag        8 bytes derived from the message id; b"" without a value
    format      Content-Format; ABSENT when the media type has no number
    expire_ms   epoch ms of its expiry; 0: never
    location    Location-Query options of its lease, or the Location-Path of a message for a FETCH; else empty
    """

    __slots__ = ("body", "etag", "expire_ms", "format", "location")

    def __init__(self, etag: bytes, media_format: int, expire_ms: int, body: bytes, location: Pairs | None = None) -> None:
        self.etag = etag
        self.format = media_format
        self.expire_ms = expire_ms
        self.body = body
        self.location = location or []


NOTHING: Final = Representation(b"", option.ABSENT, 0, b"")


def representation(data: bytes, wall_ms: int) -> Representation | None:
    """Representation of a record; None when it has expired or its body cannot be decompressed."""
    record = Record(data)
    stored = record.properties
    expire = properties.find(stored, properties.HG_EXPIRE_MS_START)
    expire_ms = int(expire) if expire.isdigit() and len(expire) < 19 else 0
    if expire_ms and expire_ms <= wall_ms:
        return None
    body = compression.plain(record, limits.BODY_BYTES_MAX)
    if body is None:
        return None
    name = properties.find(stored, properties.UNIQ_KEY_START) or b"%d" % record.physical_offset
    media_type = properties.content_type(stored)
    number = media.content_format(media_type) if media_type else option.ABSENT
    return Representation(etag_of(name), number, expire_ms, body)


def removes(data: bytes) -> bool:
    """True for the record of an empty retained MQTT message, which removes the latest value of its path."""
    record = Record(data)
    stored = record.properties
    return (
        properties.find(stored, properties.HG_PROTOCOL_START) == b"mqtt"
        and properties.find(stored, properties.MQTT_RETAIN_START) == b"true"
        and not len(record.body)
    )


def etag_of(name: bytes) -> bytes:
    """ETag of a message id or of a receipt: an 8-byte hash."""
    return hashlib.blake2b(name, digest_size=8).digest()


def accepts(options: Options, value: Representation) -> bool:
    """True when the client accepts the format (Accept, RFC 7252 section 5.10.4); a value without one counts as octet-stream."""
    if options.accept == option.ABSENT or value is NOTHING:
        return True
    return options.accept == (media.OCTET_STREAM if value.format == option.ABSENT else value.format)


def content(
    value: Representation, observe: int, number: int, exponent: int, wall_ms: int, whole_bytes: int = 0
) -> tuple[Pairs, bytes]:
    """Options and payload of a 2.05 with block `number` of `value`, or with all of a value that fits into one block.

    number        block number; the block must exist
    exponent      size exponent of the block
    observe       sequence number of a notification; ABSENT for another response
    whole_bytes   largest payload without blocks; with BERT_EXPONENT, the largest payload of one message
    """
    pairs = validity(value, wall_ms)
    if observe != option.ABSENT:
        pairs.append((option.OBSERVE, message.uint(observe)))
    if value.format != option.ABSENT:
        pairs.append((option.CONTENT_FORMAT, message.uint(value.format)))
    if number == 0:
        pairs += value.location
    size = max(whole_bytes, 1024) & -1024 if exponent == blockwise.BERT_EXPONENT else 1 << (exponent + 4)
    total = len(value.body)
    if number == 0 and total <= max(size, whole_bytes):
        return pairs, value.body
    start = blockwise.start_of(number, exponent)
    more = start + size < total
    pairs.append((option.BLOCK2, message.uint(blockwise.block(number, more, exponent))))
    if number == 0:
        pairs.append((option.SIZE2, message.uint(total)))
    return pairs, value.body[start : start + size]


def validity(value: Representation, wall_ms: int) -> Pairs:
    """ETag and Max-Age options of a value: all options of a 2.03, and the first options of a 2.05."""
    pairs: Pairs = []
    if value.etag:
        pairs.append((option.ETAG, value.etag))
    if value.expire_ms:
        pairs.append((option.MAX_AGE, message.uint(max(0, min((value.expire_ms - wall_ms) // 1000, 0xFFFFFFFF)))))
    return pairs
