"""Properties of messages: their names, and their stored form `name U+0001 value U+0002`, repeated, in UTF-8.

This is RocketMQ's form (MessageDecoder). Code works on these bytes: a message passes the gateway without a dictionary of its
properties. Names and values never contain U+0001 or U+0002, and an empty value is the same as an absent property.

Every name is written here once. `X` is the name as text, `X_START` the bytes that an entry of property X begins with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from domain import limits

NAME_END: Final = b"\x01"
"""What follows the name of an entry."""
ENTRY_END: Final = b"\x02"
"""What follows the value of an entry."""

# RocketMQ (MessageConst): what senders set.
KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
UNIQ_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
# RocketMQ: delays, as a level or as times, and the place that a parked message goes to.
DELAY: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
# RocketMQ: transactions and retries.
RETRY_TOPIC: Final = "RETRY_TOPIC"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
# RocketMQ: ordering key, priority, lite topics, receipts, dead letters, replies, origin.
SHARDING_KEY: Final = "__SHARDINGKEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
LITE_TOPIC: Final = "__LITE_TOPIC"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
POP_CK: Final = "POP_CK"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
CLUSTER: Final = "CLUSTER"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
# W3C Trace Context. User properties: every protocol carries them in its own place.
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
# RocketMQ's MQTT mapping.
ORIGIN_MQTT_TOPIC: Final = "originMqttTopic"
MQTT_RETAIN: Final = "mqttRetain"
EXT_DATA: Final = "extData"
QOS_LEVEL: Final = "qosLevel"
MQTT_CLIENT_ID: Final = "clientId"
IS_EMPTY_MSG: Final = "IS_EMPTY_MSG"
"""Of a message without a body, at Apache's brokers (gateway/brokers/empty_body.py)."""

# Headgate: what the gateway keeps of a message besides. Attributes of a CloudEvent are user properties CE_<name>.
HG_PREFIX: Final = "HG_"
HG_PROTOCOL: Final = "HG_PROTOCOL"
HG_CLIENT: Final = "HG_CLIENT"
HG_PRINCIPAL: Final = "HG_PRINCIPAL"
HG_INGRESS_MS: Final = "HG_INGRESS_MS"
HG_CONTENT_TYPE: Final = "HG_CONTENT_TYPE"
HG_EXPIRE_MS: Final = "HG_EXPIRE_MS"
HG_PAYLOAD_FORMAT: Final = "HG_PAYLOAD_FORMAT"
HG_REPLY_TO: Final = "HG_REPLY_TO"
HG_CORRELATION: Final = "HG_CORRELATION"
HG_ENVELOPE: Final = "HG_ENVELOPE"
HG_LATEST: Final = "HG_LATEST"
HG_CE_TYPED: Final = "HG_CE_TYPED"
"""Names of the attributes of a CloudEvent that are an Integer or a Boolean, apart from each other by a space."""
HG_DLQ_GROUP: Final = "HG_DLQ_GROUP"
"""Consumer group that a dead letter is of, in a dead-letter topic that several groups may have."""
# How SDKs name the content type and the expiry of a message, for which their protocols have no place (protocols/marks.py).
MARK_PREFIX: Final = "mq-"
CONTENT_TYPE: Final = "mq-content-type"
EXPIRES_AT: Final = "mq-expires-at"
CE_PREFIX: Final = "CE_"
CE_SPECVERSION: Final = "CE_specversion"
CE_DATACONTENTTYPE: Final = "CE_datacontenttype"
CE_CONTENTTYPE: Final = "CE_contenttype"  # the same in the RocketMQ binding of the CloudEvents SDK for Java
CE_SOURCE: Final = "CE_source"
CE_ID: Final = "CE_id"
CE_EXPIRYTIME: Final = "CE_expirytime"
IDEMPOTENCY_KEY: Final = "idempotency-key"
"""User property: a message with a key that is known already is not stored again (domain.message.once)."""

RESERVED: Final[frozenset[str]] = frozenset(
    (
        # What RocketMQ 5.5 refuses as the name of a user property (MessageConst.STRING_HASH_SET).
        TRACE_ON, MSG_REGION, KEYS, TAGS, WAIT, DELAY, RETRY_TOPIC, "ORIGIN_GROUP", REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP,
        "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", ORIGIN_MESSAGE_ID, "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG",
        RECONSUME_TIME, UNIQ_KEY, "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", POP_CK, "POP_CK_OFFSET", FIRST_POP_TIME,
        "TRAN_PREPARED_QUEUE_OFFSET", "DUP_INFO", "EXTEND_UNIQ_INFO", "INSTANCE_ID", "CORRELATION_ID", REPLY_TO_CLIENT, "TTL",
        "ARRIVE_TIME", "PUSH_REPLY_TIME", CLUSTER, "MSG_TYPE", INNER_MULTI_QUEUE_OFFSET, TIMER_DELAY_MS, TIMER_DELAY_SEC,
        TIMER_DELIVER_MS, "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", TIMER_OUT_MS, "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL", BORN_HOST, BORN_TIMESTAMP, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, "__CRC32#",
        # What its SDKs and brokers set.
        PRIORITY, LITE_TOPIC, SHARDING_KEY, TRACE_CONTEXT, CHECK_IMMUNITY, TRANSACTION_ID, CHECK_TIMES,
        INNER_MULTI_DISPATCH, "INNER_NUM", "INNER_BASE", "PROPERTY_FORWARD_QUEUE_ID", "REDIRECT",
        # What RocketMQ's MQTT mapping sets.
        ORIGIN_MQTT_TOPIC, MQTT_RETAIN, EXT_DATA, QOS_LEVEL, "cleanSessionFlag", MQTT_CLIENT_ID, "retryTimes", "namespace",
        IS_EMPTY_MSG, "mqttRealTopic",
        # Set by the gateway from requests of SDKs, and returned to them.
        CONTENT_TYPE, EXPIRES_AT,
    )
)  # fmt: skip
RESERVED_PREFIXES: Final = (HG_PREFIX, "__RMQ.TRANSIENT.")


def start_of(key: str) -> bytes:
    """The bytes that an entry of property `key` begins with: its name in UTF-8, then U+0001."""
    return key.encode() + NAME_END


KEYS_START: Final = start_of(KEYS)
TAGS_START: Final = start_of(TAGS)
UNIQ_KEY_START: Final = start_of(UNIQ_KEY)
DELAY_START: Final = start_of(DELAY)
TIMER_DELAY_SEC_START: Final = start_of(TIMER_DELAY_SEC)
TIMER_DELAY_MS_START: Final = start_of(TIMER_DELAY_MS)
TIMER_DELIVER_MS_START: Final = start_of(TIMER_DELIVER_MS)
TIMER_OUT_MS_START: Final = start_of(TIMER_OUT_MS)
REAL_QID_START: Final = start_of(REAL_QID)
TRAN_MSG_START: Final = start_of(TRAN_MSG)
PGROUP_START: Final = start_of(PGROUP)
CHECK_IMMUNITY_START: Final = start_of(CHECK_IMMUNITY)
SHARDING_KEY_START: Final = start_of(SHARDING_KEY)
PRIORITY_START: Final = start_of(PRIORITY)
LITE_TOPIC_START: Final = start_of(LITE_TOPIC)
INNER_MULTI_DISPATCH_START: Final = start_of(INNER_MULTI_DISPATCH)
INNER_MULTI_QUEUE_OFFSET_START: Final = start_of(INNER_MULTI_QUEUE_OFFSET)
POP_CK_START: Final = start_of(POP_CK)
DLQ_ORIGIN_TOPIC_START: Final = start_of(DLQ_ORIGIN_TOPIC)
DLQ_ORIGIN_MESSAGE_ID_START: Final = start_of(DLQ_ORIGIN_MESSAGE_ID)
REPLY_TO_CLIENT_START: Final = start_of(REPLY_TO_CLIENT)
CLUSTER_START: Final = start_of(CLUSTER)
MSG_REGION_START: Final = start_of(MSG_REGION)
TRACE_CONTEXT_START: Final = start_of(TRACE_CONTEXT)
ORIGIN_MQTT_TOPIC_START: Final = start_of(ORIGIN_MQTT_TOPIC)
MQTT_RETAIN_START: Final = start_of(MQTT_RETAIN)
EXT_DATA_START: Final = start_of(EXT_DATA)
QOS_LEVEL_START: Final = start_of(QOS_LEVEL)
IS_EMPTY_MSG_START: Final = start_of(IS_EMPTY_MSG)
HG_PROTOCOL_START: Final = start_of(HG_PROTOCOL)
HG_CLIENT_START: Final = start_of(HG_CLIENT)
HG_PRINCIPAL_START: Final = start_of(HG_PRINCIPAL)
HG_CONTENT_TYPE_START: Final = start_of(HG_CONTENT_TYPE)
HG_EXPIRE_MS_START: Final = start_of(HG_EXPIRE_MS)
HG_PAYLOAD_FORMAT_START: Final = start_of(HG_PAYLOAD_FORMAT)
HG_CORRELATION_START: Final = start_of(HG_CORRELATION)
HG_ENVELOPE_START: Final = start_of(HG_ENVELOPE)
HG_LATEST_START: Final = start_of(HG_LATEST)
HG_CE_TYPED_START: Final = start_of(HG_CE_TYPED)
CONTENT_TYPE_START: Final = start_of(CONTENT_TYPE)
EXPIRES_AT_START: Final = start_of(EXPIRES_AT)
CE_EXPIRYTIME_START: Final = start_of(CE_EXPIRYTIME)
CE_SPECVERSION_START: Final = start_of(CE_SPECVERSION)
CE_DATACONTENTTYPE_START: Final = start_of(CE_DATACONTENTTYPE)
CE_CONTENTTYPE_START: Final = start_of(CE_CONTENTTYPE)
IDEMPOTENCY_KEY_START: Final = start_of(IDEMPOTENCY_KEY)

HG_BYTES: Final = HG_PREFIX.encode()
CE_BYTES: Final = CE_PREFIX.encode()


def is_reserved(key: str) -> bool:
    """True when clients cannot set `key` as a user property."""
    return key in RESERVED or key.startswith(RESERVED_PREFIXES)


def is_storable(key: str, value: str) -> bool:
    """True when the pair can be stored without loss."""
    return key != "" and value != "" and "\x01" not in key and "\x02" not in key and "\x01" not in value and "\x02" not in value


def entry(key: str, value: str) -> bytes:
    """One entry. The caller has checked the pair with `is_storable`."""
    return f"{key}\x01{value}\x02".encode()


def encode(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Pairs -> stored form. Raises ValueError when a pair is not storable."""
    out: list[bytes] = []
    for key, value in pairs:
        if not is_storable(key, value):
            raise ValueError(f"property {key!r} cannot be stored: empty, or it holds U+0001 or U+0002")
        out.append(entry(key, value))
    return b"".join(out)


def decode(properties: bytes) -> dict[str, str]:
    """Stored form -> dictionary. The last of equal names wins, malformed entries are skipped, bad UTF-8 is replaced."""
    out: dict[str, str] = {}
    for piece in properties.split(ENTRY_END):
        at = piece.find(NAME_END)
        if at > 0 and at + 1 < len(piece):
            out[piece[:at].decode("utf-8", "replace")] = piece[at + 1 :].decode("utf-8", "replace")
    return out


def has(properties: bytes, start: bytes) -> bool:
    """True when `start` occurs anywhere in the properties: a cheap test before `find`.

    The usual answer is no, and then nothing is copied. `find` parses its arguments, which takes longer than the search; `in`
    takes `start` for a number first, and catches the exception: 50, 85 and 170 ns.
    """
    return len(properties.partition(start)[1]) != 0


def find(properties: bytes, start: bytes) -> bytes:
    """The value of the entry that begins with `start` (see `start_of`), b"" when it is absent. Builds no dictionary."""
    size = len(start)
    at = properties.find(start)
    while at > 0 and properties[at - 1] != 2:
        at = properties.find(start, at + 1)
    if at < 0:
        return b""
    end = properties.find(ENTRY_END, at + size)
    return properties[at + size :] if end < 0 else properties[at + size : end]


def text(properties: bytes, key: str) -> str:
    """The value of `key` as text, "" when it is absent."""
    return find(properties, start_of(key)).decode("utf-8", "replace")


def content_type(properties: bytes) -> str:
    """The media type of the body; "": unknown. An SDK sets it as an attribute of an event."""
    found = (
        find(properties, HG_CONTENT_TYPE_START)
        or find(properties, CE_DATACONTENTTYPE_START)
        or find(properties, CE_CONTENTTYPE_START)
    )
    return found.decode("utf-8", "replace")


def without(properties: bytes, keys: Iterable[str]) -> bytes:
    """The properties without `keys`, in the same order."""
    gone = {key.encode() for key in keys}
    out: list[bytes] = []
    for piece in properties.split(ENTRY_END):
        at = piece.find(NAME_END)
        if at > 0 and piece[:at] not in gone:
            out.append(piece)
            out.append(ENTRY_END)
    return b"".join(out)


def with_values(properties: bytes, values: Mapping[str, str]) -> bytes:
    """The properties with `values` set; each replaces the entry of the same name."""
    return terminated(without(properties, values.keys())) + encode(values.items())


def with_room(properties: bytes, values: Mapping[str, str]) -> bytes:
    """The properties of a copy that the node makes: those of the message, with `values` set as far as there is room.

    With what a client may send (limits.CLIENT_PROPERTIES_BYTES_MAX) there is room for all. A message of an earlier version may
    leave less: the first of `values` that does not fit is left out, with those behind it. At most
    limits.PROPERTIES_BYTES_MAX bytes, so that the copy can be stored whatever the message has.
    """
    out = without(properties, values.keys())
    for key, value in values.items():
        mark = entry(key, value)
        if len(out) + len(mark) > limits.PROPERTIES_BYTES_MAX:
            break
        out += mark
    # The end that `without` puts behind the last entry may be one byte too many, and need not be there.
    return out if len(out) <= limits.PROPERTIES_BYTES_MAX else out[:-1]


def cut(properties: bytes, most: int) -> bytes:
    """The properties in at most `most` bytes, for a client that reads no more: without marks of retries, or the last entries.

    Only messages of earlier versions are cut: others have room for what the node adds.
    """
    out = terminated(properties)
    if len(out) > most:
        out = without(out, (FIRST_POP_TIME, RETRY_TOPIC, ORIGIN_MESSAGE_ID))
    while len(out) > most:
        out = out[: out.rfind(ENTRY_END, 0, len(out) - 1) + 1]
    return out


def id_mark(message_id: str) -> str:
    """The id of a message as the value of a mark: "-" when there is none, or when it is too long to be written twice."""
    return message_id if message_id and len(message_id.encode()) <= limits.MARKED_ID_BYTES_MAX else "-"


def client_bytes(properties: bytes) -> int:
    """How many bytes of stored properties count as the client's: all but the marks of the node that adapters and access control
    have set beside them."""
    own = 0
    for start in (HG_PROTOCOL_START, HG_PRINCIPAL_START, MSG_REGION_START):
        value = find(properties, start)
        # A client can set a region itself, of any length.
        own += len(start) + len(value) + 1 if value and (start != MSG_REGION_START or len(value) <= 64) else 0
    return len(properties) - own


def terminated(properties: bytes) -> bytes:
    """The properties with an end after the last entry, so that an entry can follow. RocketMQ's clients may omit that end."""
    return properties if not properties or properties.endswith(ENTRY_END) else properties + ENTRY_END


RESERVED_STARTS: Final[frozenset[bytes]] = frozenset([start_of(key) for key in RESERVED])
_RESERVED_PREFIX_BYTES: Final = tuple([prefix.encode() for prefix in RESERVED_PREFIXES])


def user(properties: bytes) -> dict[str, str]:
    """The properties that the sending application has set: decoded, without reserved names, for all adapters alike."""
    out: dict[str, str] = {}
    for piece in properties.split(ENTRY_END):
        at = piece.find(NAME_END)
        if at <= 0 or at + 1 == len(piece):
            continue
        # Most messages have reserved ones only: those are not decoded.
        if piece[: at + 1] not in RESERVED_STARTS and not piece.startswith(_RESERVED_PREFIX_BYTES):
            out[piece[:at].decode("utf-8", "replace")] = piece[at + 1 :].decode("utf-8", "replace")
    return out


DELAY_MARK: Final = b"DEL"
"""Part of all names in `_DELAY_STARTS`."""
_DELAY_STARTS: Final = (DELAY_START, TIMER_DELIVER_MS_START, TIMER_DELAY_SEC_START, TIMER_DELAY_MS_START)


def may_have_delay(properties: bytes) -> bool:
    """False when certainly no property names a delay or a delivery time: one cheap test before `has_delay`."""
    return has(properties, DELAY_MARK)


def has_delay(properties: bytes) -> bool:
    """True when a property names a delay or a delivery time, also one that is over."""
    return may_have_delay(properties) and any(find(properties, start) for start in _DELAY_STARTS)


def message_type(properties: bytes) -> str:
    """The type of a message by its properties, the first that fits (RocketMQ's TopicMessageType).

    TRANSACTION, DELAY, FIFO, PRIORITY, LITE, else NORMAL.
    """
    if find(properties, TRAN_MSG_START) == b"true":
        return "TRANSACTION"
    if has_delay(properties):
        return "DELAY"
    if find(properties, SHARDING_KEY_START):
        return "FIFO"
    if find(properties, PRIORITY_START):
        return "PRIORITY"
    return "LITE" if find(properties, LITE_TOPIC_START) else "NORMAL"
