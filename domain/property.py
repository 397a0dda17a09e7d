"""Message properties as they are stored: `key U+0001 value U+0002` repeated, UTF-8 (RocketMQ's MessageDecoder).

The encoded bytes are the working form: a message crosses the gateway without its properties ever becoming a dictionary.
Keys and values never hold U+0001 or U+0002, and an empty value is the same as an absent key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

NAME_END: Final = b"\x01"
ENTRY_END: Final = b"\x02"

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
UNIQ_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
SHARDING_KEY: Final = "__SHARDINGKEY"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
POP_CK: Final = "POP_CK"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
ORIGIN_MQTT_TOPIC: Final = "originMqttTopic"
MQTT_RETAIN: Final = "mqttRetain"
EXT_DATA: Final = "extData"
QOS_LEVEL: Final = "qosLevel"
MQTT_CLIENT_ID: Final = "clientId"

HG_PROTOCOL: Final = "HG_PROTOCOL"
HG_CLIENT: Final = "HG_CLIENT"
HG_PRINCIPAL: Final = "HG_PRINCIPAL"
HG_INGRESS_MS: Final = "HG_INGRESS_MS"
HG_CONTENT_TYPE: Final = "HG_CONTENT_TYPE"
HG_EXPIRE_MS: Final = "HG_EXPIRE_MS"
HG_PAYLOAD_FORMAT: Final = "HG_PAYLOAD_FORMAT"
HG_REPLY_TO: Final = "HG_REPLY_TO"
HG_CORRELATION: Final = "HG_CORRELATION"
CE_PREFIX: Final = "CE_"

# RocketMQ 5.5's reject set, then what its SDKs inject or leak, then what the MQTT mapping and Headgate own.
RESERVED: Final[frozenset[str]] = frozenset(
    {
        "TRACE_ON",
        "MSG_REGION",
        "KEYS",
        "TAGS",
        "WAIT",
        "DELAY",
        "RETRY_TOPIC",
        "ORIGIN_GROUP",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "BUYER_ID",
        "ORIGIN_MESSAGE_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "RECONSUME_TIME",
        "UNIQ_KEY",
        "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "DUP_INFO",
        "EXTEND_UNIQ_INFO",
        "INSTANCE_ID",
        "CORRELATION_ID",
        "REPLY_TO_CLIENT",
        "TTL",
        "ARRIVE_TIME",
        "PUSH_REPLY_TIME",
        "CLUSTER",
        "MSG_TYPE",
        "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_OUT_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL",
        "__BORNHOST",
        "BORN_TIMESTAMP",
        "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID",
        "__CRC32#",
        "_SYS_MSG_PRIORITY_",
        "__LITE_TOPIC",
        "__SHARDINGKEY",
        "TRACE_CONTEXT",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "__transactionId__",
        "TRANSACTION_CHECK_TIMES",
        "INNER_MULTI_DISPATCH",
        "INNER_NUM",
        "INNER_BASE",
        "PROPERTY_FORWARD_QUEUE_ID",
        "REDIRECT",
        "originMqttTopic",
        "mqttRetain",
        "extData",
        "qosLevel",
        "cleanSessionFlag",
        "clientId",
        "retryTimes",
        "namespace",
        "IS_EMPTY_MSG",
        "mqttRealTopic",
        "traceparent",
        "tracestate",
    }
)


def is_reserved(key: str) -> bool:
    """True when no client may set `key` as a user property."""
    return key in RESERVED or key.startswith(("HG_", "CE_", "__RMQ.TRANSIENT."))


def is_storable(key: str, value: str) -> bool:
    """True when the pair can be written in the stored form without loss."""
    return key != "" and value != "" and "\x01" not in key and "\x02" not in key and "\x01" not in value and "\x02" not in value


def entry(key: str, value: str) -> bytes:
    """One encoded pair. The caller has checked it with `is_storable`."""
    return f"{key}\x01{value}\x02".encode()


def encode(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Pairs -> stored form. Raises ValueError when a pair is not storable."""
    out: list[bytes] = []
    for key, value in pairs:
        if not is_storable(key, value):
            raise ValueError(f"property {key!r} cannot be stored: empty, or it holds U+0001 or U+0002")
        out.append(f"{key}\x01{value}\x02".encode())
    return b"".join(out)


def decode(properties: bytes) -> dict[str, str]:
    """Stored form -> dictionary; the last of equal keys wins, malformed pieces are skipped, bad UTF-8 is replaced."""
    out: dict[str, str] = {}
    for piece in properties.split(b"\x02"):
        at = piece.find(b"\x01")
        if at > 0 and at + 1 < len(piece):
            out[piece[:at].decode("utf-8", "replace")] = piece[at + 1 :].decode("utf-8", "replace")
    return out


def find(properties: bytes, key: bytes) -> bytes:
    """The value of `key` (UTF-8 bytes), or b"" when it is absent. No dictionary is built."""
    needle = key + b"\x01"
    size = len(needle)
    at = properties.find(needle)
    while at > 0 and properties[at - 1] != 2:
        at = properties.find(needle, at + 1)
    if at < 0:
        return b""
    end = properties.find(b"\x02", at + size)
    return properties[at + size :] if end < 0 else properties[at + size : end]


def text(properties: bytes, key: str) -> str:
    """The value of `key` as text, or "" when it is absent."""
    return find(properties, key.encode()).decode("utf-8", "replace")


def without(properties: bytes, keys: Iterable[str]) -> bytes:
    """The same properties less `keys`, order kept."""
    gone = {key.encode() for key in keys}
    out: list[bytes] = []
    for piece in properties.split(b"\x02"):
        at = piece.find(b"\x01")
        if at > 0 and piece[:at] not in gone:
            out.append(piece)
            out.append(b"\x02")
    return b"".join(out)


def with_values(properties: bytes, values: Mapping[str, str]) -> bytes:
    """The same properties with `values` set, each replacing what stood under its key."""
    kept = without(properties, values.keys())
    if kept and not kept.endswith(b"\x02"):
        kept += b"\x02"
    return kept + encode(values.items())


_RESERVED_BYTES: Final[frozenset[bytes]] = frozenset([key.encode() for key in RESERVED])
_RESERVED_FRONTS: Final = (b"HG_", b"CE_", b"__RMQ.TRANSIENT.")


def user(properties: bytes) -> dict[str, str]:
    """What the sender's application set: the decoded properties less the reserved names. The one reading for all adapters."""
    out: dict[str, str] = {}
    for piece in properties.split(b"\x02"):
        at = piece.find(b"\x01")
        # Most messages have reserved ones only: those are not decoded.
        if at > 0 and at + 1 < len(piece) and piece[:at] not in _RESERVED_BYTES and not piece.startswith(_RESERVED_FRONTS):
            out[piece[:at].decode("utf-8", "replace")] = piece[at + 1 :].decode("utf-8", "replace")
    return out


def message_type(properties: bytes) -> str:
    """What the stored properties make of a message, first that fits (RocketMQ's TopicMessageType).

    TRANSACTION, DELAY, FIFO, PRIORITY, LITE, else NORMAL.
    """
    if find(properties, b"TRAN_MSG") == b"true":
        return "TRANSACTION"
    if any(find(properties, key) for key in (b"DELAY", b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS")):
        return "DELAY"
    if find(properties, b"__SHARDINGKEY"):
        return "FIFO"
    if find(properties, b"_SYS_MSG_PRIORITY_"):
        return "PRIORITY"
    return "LITE" if find(properties, b"__LITE_TOPIC") else "NORMAL"
