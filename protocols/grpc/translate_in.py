"""A message of SendMessage -> a domain message, with the checks of RocketMQ's proxy (SendMessageActivity, GrpcValidator).

Refusals are values, not exceptions: a code of the protocol and a sentence.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from domain import address, limits
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Message
from domain.topic import lite
from protocols import compression, marks
from protocols.adapter import Peer
from protocols.grpc.messages import messaging_pb2 as pb

USER_PROPERTIES_MAX: Final = 128
USER_BYTES_MAX: Final = 16 * 1024
SYS_ZLIB: Final = 0x301
ORPHAN_SECONDS_MAX: Final = 3_600

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Refusal(NamedTuple):
    """The reason of a refused request: `Status.code` and text."""

    code: int
    text: str


def topic_of(name: str) -> Refusal | None:
    """Check the name of a topic."""
    if not address.is_topic(name) or (address.is_system_topic(name) and not address.is_derived_topic(name)):
        text = f"topic {name!r}: 1 to 127 of % | a-z A-Z 0-9 _ -, and no name of the system, in a namespace without %"
        return Refusal(pb.ILLEGAL_TOPIC, text)
    return None


def group_of(name: str) -> Refusal | None:
    """Check the name of a consumer group."""
    if not address.is_group(name):
        return Refusal(pb.ILLEGAL_CONSUMER_GROUP, f"group {name!r}: 1 to 120 of the characters % | a-z A-Z 0-9 _ -")
    return None


def invisible_time(duration_ms: int, least_ms: int) -> Refusal | None:
    """Check an invisible duration. The text is that of RocketMQ's proxy: clients search it."""
    if duration_ms < least_ms:
        return Refusal(pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small: {duration_ms} ms. min is {least_ms}")
    if duration_ms > limits.INVISIBLE_MS_MAX:
        text = f"the invisibleTime is too large: {duration_ms} ms. max is {limits.INVISIBLE_MS_MAX}"
        return Refusal(pb.ILLEGAL_INVISIBLE_TIME, text)
    return None


def lite_of(name: str) -> Refusal | None:
    """Check the name of a lite topic."""
    if lite.is_name(name):
        return None
    return Refusal(pb.ILLEGAL_LITE_TOPIC, f"lite topic {name[:80]!r}: 1 to {lite.NAME_CHARS_MAX} of a-z A-Z 0-9 _ -")


def message(
    topic: str, sent: pb.Message, origin: bytes, peer: Peer, wall_ms: int, room: int = limits.BATCH_BYTES_MAX
) -> tuple[Message, int] | Refusal:
    """One message of a topic whose name has been checked, and the bytes of its body, decompressed.

    `origin`: stored properties of protocol and client. `wall_ms`: the current time, for the check of the delivery time.
    `room`: bytes that the bodies of the request may still have together, decompressed.
    """
    system = sent.system_properties
    body = sent.body
    size = len(body)
    if not body:
        return Refusal(pb.MESSAGE_BODY_EMPTY, "the message has no body")
    if size > limits.BODY_BYTES_MAX:
        return Refusal(pb.MESSAGE_BODY_TOO_LARGE, f"the body has {size} bytes, 4,194,304 are allowed")
    if size > room:
        return Refusal(pb.PAYLOAD_TOO_LARGE, "the bodies have more than 4,194,304 bytes together")
    message_id: str = system.message_id
    if not message_id.isalnum() and (not message_id.strip() or _CONTROL.search(message_id)):
        return Refusal(pb.ILLEGAL_MESSAGE_ID, "the message has no usable id")
    kind = system.message_type
    stored = _stored(sent, system, message_id)
    if isinstance(stored, Refusal):
        return stored
    if system.HasField("delivery_timestamp"):
        deliver_ms = system.delivery_timestamp.seconds * 1000 + system.delivery_timestamp.nanos // 1_000_000
        if deliver_ms - wall_ms > limits.DELAY_MS_MAX:
            return Refusal(pb.ILLEGAL_DELIVERY_TIME, "the delivery time is more than 366 days ahead")
        stored += f"{properties.TIMER_DELIVER_MS}\x01{max(deliver_ms, 0)}\x02"  # also when it is in the past
    sys_flag = 0
    if kind == pb.TRANSACTION:
        immune_s = system.orphaned_transaction_recovery_duration.seconds
        if not 0 <= immune_s <= ORPHAN_SECONDS_MAX:
            return Refusal(pb.BAD_REQUEST, f"an orphaned transaction is asked about after {immune_s} s, 0 to 3,600 are allowed")
        stored += f"{properties.TRAN_MSG}\x01true\x02{properties.PGROUP}\x01{topic}\x02"
        if immune_s:
            stored += f"{properties.CHECK_IMMUNITY}\x01{immune_s}\x02"
        sys_flag = SYS_PREPARED
    if system.body_encoding == pb.GZIP:
        opened = _inflated(body, room)
        if isinstance(opened, Refusal):
            return opened
        size = len(opened)
        if body.startswith(compression.GZIP_MAGIC):
            body = opened  # the stored flag means zlib, not gzip
        else:
            sys_flag |= SYS_ZLIB
    born = system.born_timestamp
    encoded = stored.encode()
    made = Message(
        topic,
        body,
        encoded + origin,
        message_id=message_id,
        sys_flag=sys_flag,
        born_ms=max(born.seconds * 1000 + born.nanos // 1_000_000, 0),
        born_host=peer.born_host,
        retain=marks.retain_of(topic, encoded),
    )
    return made, size


def _inflated(body: bytes, room: int) -> bytes | Refusal:
    """A GZIP body, decompressed to at most `room` bytes."""
    opened = compression.inflate(body, room)
    if opened is not None:
        return opened
    if room < limits.BODY_BYTES_MAX:
        return Refusal(pb.PAYLOAD_TOO_LARGE, "a GZIP body is corrupt, or the bodies have more than 4,194,304 bytes")
    return Refusal(pb.MESSAGE_CORRUPTED, "the GZIP body is corrupt, or larger than 4,194,304 bytes inside")


def _stored(sent: pb.Message, system: pb.SystemProperties, message_id: str) -> str | Refusal:
    """Properties in stored form, as text."""
    out = f"{properties.UNIQ_KEY}\x01{message_id}\x02"
    size = 0
    if sent.user_properties:
        user = _user(dict(sent.user_properties))
        if isinstance(user, Refusal):
            return user
        out += user
        size += len(user.encode()) - len("\x01\x02") * user.count("\x02")
    if tag := system.tag:
        if not tag.strip() or "|" in tag or _CONTROL.search(tag):
            return Refusal(pb.ILLEGAL_MESSAGE_TAG, f"tag {tag!r}: blank, or with a | or a control character")
        out += f"{properties.TAGS}\x01{tag}\x02"
        size += len(tag.encode())
    if system.keys:
        if len(system.keys) > USER_BYTES_MAX:
            return Refusal(pb.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(system.keys)} keys have more than 16,384 bytes")
        keys = [key for key in system.keys if key]
        joined = " ".join(keys)
        if not all(map(str.strip, keys)) or _CONTROL.search(joined):
            return Refusal(pb.ILLEGAL_MESSAGE_KEY, "a key is blank, or has a control character")
        out += f"{properties.KEYS}\x01{joined}\x02" if joined else ""
        size += len(joined.encode()) - joined.count(" ")
    if size > USER_BYTES_MAX:
        return Refusal(pb.MESSAGE_PROPERTIES_TOO_LARGE, f"properties, tag and keys have {size} bytes, 16,384 are allowed")
    if group := system.message_group:
        if not group.strip() or len(group.encode()) >= limits.MESSAGE_GROUP_BYTES_MAX or _CONTROL.search(group):
            return Refusal(pb.ILLEGAL_MESSAGE_GROUP, f"message group {group!r}: blank, over 63 bytes, or a control character")
        out += f"{properties.SHARDING_KEY}\x01{group}\x02"
    if system.HasField("lite_topic"):
        illegal = lite_of(system.lite_topic)
        if illegal is not None:
            return illegal
        out += f"{properties.LITE_TOPIC}\x01{system.lite_topic}\x02"
    if system.HasField("priority"):
        if system.priority < 0:
            return Refusal(pb.BAD_REQUEST, f"the priority is {system.priority}, 0 or more is allowed")
        out += f"{properties.PRIORITY}\x01{system.priority}\x02"
    if system.HasField("trace_context") and properties.is_storable(properties.TRACE_CONTEXT, system.trace_context):
        out += f"{properties.TRACE_CONTEXT}\x01{system.trace_context}\x02"
    return out


def _user(pairs: dict[str, str]) -> str | Refusal:
    """User properties in stored form. Empty values are omitted: in the stored form they are absent keys."""
    if len(pairs) > USER_PROPERTIES_MAX:
        return Refusal(pb.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(pairs)} properties, {USER_PROPERTIES_MAX} are allowed")
    out = ""
    for key, value in pairs.items():
        is_reserved = properties.is_reserved(key) and key not in marks.SDK_NAMES
        if is_reserved or key == "" or _CONTROL.search(key) or _CONTROL.search(value):
            return Refusal(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {key!r}: reserved, empty, or with a control character")
        if value:
            out += f"{key}\x01{value}\x02"
    if properties.MARK_PREFIX not in out and properties.CE_EXPIRYTIME not in out:
        return out
    try:
        return marks.stored_form(out.encode()).decode()
    except ValueError as error:
        return Refusal(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, str(error))
