"""Sends: request codes 10, 310 and 320 -> Send, Sent -> a reply (RocketMQ's SendMessageRequestHeader, its V2, MessageDecoder).

A binary V2 header, as Java writes it, has its ext fields in the order a … n. All but the born time (g), the flag (h) and the
properties (i) are the same for all messages of a producer to a queue. So the bytes before g (prefix) and after i (suffix) are
looked up in a cache, and only headers that are not in the cache are decoded. Other orders and encodings are always decoded.
"""

from __future__ import annotations

import struct
from typing import Final

from domain import limits
from domain.address import RETRY_PREFIX, UNSENDABLE_TOPICS, is_pop_retry_topic
from domain.command import Send, SendRetry
from domain.errors import Failure
from domain.event import Sent
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, SYS_TRANSACTION, Message, Placed
from domain.octets import uint32
from protocols import marks
from protocols.remoting import codes
from protocols.remoting.client import REGION, Client
from protocols.remoting.clients.header_cache import HeaderCache, HeaderPrefix
from protocols.remoting.status import response_code
from protocols.remoting.ticket import Outcome, RequestError, Ticket, int64
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.header import BINARY, split

SYS_KEPT: Final = 0x701
"""Bits of the sender's sysFlag that are stored: compression and its type. The broker sets the other bits."""
_TRUE: Final = ("true", "1")
"""Values of the ext field `batch` of a batch: Java sends `true`, the C++ client `1` with request code 10."""

_HALF_MESSAGE: Final = properties.TRAN_MSG_START + b"true"
_MSG_REGION: Final = properties.MSG_REGION_START + REGION.encode() + b"\x02"
_REPLACED: Final = "\ufffd"
"""In a decoded text, in place of what was not UTF-8; or a character that the client has sent."""
_BORN = b"\x00\x01g\x00\x00\x00\x0d"
_FLAG_ZERO_PROPERTIES = b"\x00\x01h\x00\x00\x00\x010\x00\x01i"
_V1: Final[dict[str, str]] = {
    "producerGroup": "a", "topic": "b", "defaultTopicQueueNums": "d", "queueId": "e", "sysFlag": "f", "bornTimestamp": "g",
    "flag": "h", "properties": "i", "reconsumeTimes": "j", "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
_ENTRY = struct.Struct(">iiiii")
_REPLY = struct.Struct(">IIHBhiiii")


def read(client: Client, frame: Frame, header_cache: HeaderCache) -> Outcome:
    """Request codes 10, 310, 320 -> Send; SendRetry when the topic is a retry topic. Raises RequestError."""
    if frame.serialize == BINARY and frame.code == codes.SEND_V2:
        cached = _read_cached(client, frame, header_cache)
        if cached is not None:
            return (cached,)
    fields = _fields(frame)
    message, batch = _read_fields(client, frame, fields)
    if batch:
        messages = _batch(message)
        return (Send(Ticket(frame, sent), messages, frame.flag & 2 == 0, False, _int(fields, "d")),)
    if frame.serialize == BINARY and frame.code == codes.SEND_V2:
        _cache_header(frame, message, fields, header_cache)
    _finish(client, message)
    if message.topic.startswith(RETRY_PREFIX):
        group = message.topic[len(RETRY_PREFIX) :]
        return (SendRetry(Ticket(frame, sent), [message], group, _int(fields, "l", -1), frame.flag & 2 == 0),)
    return (Send(Ticket(frame, sent), [message], frame.flag & 2 == 0, False, _int(fields, "d")),)


def read_message(client: Client, frame: Frame) -> Message:
    """The message of a request that is not a batch, with any request code of sends or replies. Raises RequestError."""
    message, _ = _read_fields(client, frame, _fields(frame))
    _finish(client, message)
    return message


def _finish(client: Client, message: Message) -> None:
    stored = _storable(message.properties)
    if properties.has(stored, properties.REPLY_TO_CLIENT_START):
        stored = _with_cluster(client, stored)
    message.properties = stored
    message.message_id = properties.text(stored, properties.UNIQ_KEY)
    message.retain = marks.retain_of(message.topic, stored)


def _with_cluster(client: Client, stored: bytes) -> bytes:
    """The properties of a request message with CLUSTER, from which the replying client gets the reply topic."""
    if not properties.find(stored, properties.REPLY_TO_CLIENT_START) or properties.find(stored, properties.CLUSTER_START):
        return stored
    return stored + properties.CLUSTER_START + client.node.cluster.encode() + b"\x02"


def _read_cached(client: Client, frame: Frame, header_cache: HeaderCache) -> Send | None:
    """The Send of a header whose prefix and suffix are cached; None when the header has to be decoded."""
    ext = frame.ext
    at = ext.find(_BORN)
    if at < 0:
        return None
    prefix = header_cache.prefixes.get(ext[:at])
    if prefix is None or ext[at + 20 : at + 31] != _FLAG_ZERO_PROPERTIES:
        return None
    start = at + 35
    if start > len(ext):
        return None
    end = start + uint32(ext, at + 31)
    stored = ext[start:end]
    if ext[end:] not in header_cache.suffixes or properties.has(stored, properties.TRAN_MSG_START):
        return None
    born = ext[at + 7 : at + 20]
    if not born.isdigit():
        return None
    if (
        properties.has(stored, properties.HG_BYTES)
        or properties.has(stored, properties.POP_CK_START)
        or marks.may_have_marks(stored)
        or not stored.isascii()
        or stored[-1:] != b"\x02"
    ):
        stored = _storable(stored)
    else:
        stored = _with_region(stored)
    if properties.has(stored, properties.REPLY_TO_CLIENT_START):
        stored = _with_cluster(client, stored)
    at = stored.find(properties.UNIQ_KEY_START)
    if at == 0 or (at > 0 and stored[at - 1] == 2):
        message_id = stored[at + len(properties.UNIQ_KEY_START) : stored.find(b"\x02", at)].decode()
    else:
        message_id = properties.text(stored, properties.UNIQ_KEY)
    message = Message(
        prefix.topic,
        frame.body,
        stored,
        queue_id=prefix.queue_id,
        message_id=message_id,
        sys_flag=prefix.sys_flag,
        born_ms=int(born),
        born_host=client.peer.born_host,
        retain=marks.retain_of(prefix.topic, stored),
    )
    return Send(Ticket(frame, sent), [message], frame.flag & 2 == 0, False, prefix.queues)


def _cache_header(frame: Frame, message: Message, fields: dict[str, str], header_cache: HeaderCache) -> None:
    """Cache prefix and suffix of a header with flag 0, no retry, and the properties right after the flag."""
    ext = frame.ext
    at = ext.find(_BORN)
    if (
        at < 0
        or ext[at + 20 : at + 31] != _FLAG_ZERO_PROPERTIES
        or message.reconsume_times
        or message.sys_flag & SYS_PREPARED
        or message.topic.startswith("%")
        or not at + 35 <= len(ext) <= 65_536
    ):
        return
    start = at + 35
    end = start + uint32(ext, at + 31)
    prefix = split(ext[:at])
    suffix = split(ext[end:])
    if prefix is None or suffix is None or set(prefix) | set(suffix) | {b"g", b"h", b"i"} != {key.encode() for key in fields}:
        return
    if set(prefix) & set(suffix) or not {b"a", b"b", b"e", b"f"} <= set(prefix) or b"d" in suffix:
        return
    made = HeaderPrefix(message.topic, message.queue_id, message.sys_flag, _int(fields, "d"))
    header_cache.add(ext[:at], made, ext[end:])


def _fields(frame: Frame) -> dict[str, str]:
    """The ext fields by their V2 letters; names of V1 are translated."""
    found = frame.fields()
    if found is None:
        raise RequestError(codes.INVALID_PARAMETER, "the ext fields of the header are malformed")
    if frame.code in (codes.SEND, codes.SEND_REPLY) and "topic" in found:
        return {letter: found[name] for name, letter in _V1.items() if name in found}
    return found


def _read_fields(client: Client, frame: Frame, fields: dict[str, str]) -> tuple[Message, bool]:
    """(message, True when its body is a batch) of a header in any encoding."""
    topic = fields.get("b", "")
    if not topic:
        raise RequestError(codes.INVALID_PARAMETER, "the custom field <topic> is null")
    if topic in UNSENDABLE_TOPICS or is_pop_retry_topic(topic):
        raise RequestError(codes.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    sys_flag = int64("sysFlag", fields.get("f") or "0")
    stored = _properties(frame, fields)
    prepared = properties.find(stored, properties.TRAN_MSG_START) == b"true"
    if sys_flag & SYS_TRANSACTION and not prepared:
        raise RequestError(codes.MESSAGE_ILLEGAL, "the sysFlag is that of a transaction, and TRAN_MSG is not true")
    sys_flag &= SYS_KEPT
    if prepared:
        sys_flag |= SYS_PREPARED
        if fields.get("a") and not properties.find(stored, properties.PGROUP_START):
            stored = properties.with_values(stored, {properties.PGROUP: fields["a"]})
    times = _int(fields, "j")
    queue_id = _int(fields, "e", -1)
    message = Message(
        topic,
        frame.body,
        stored,
        queue_id=queue_id,
        sys_flag=sys_flag,
        flag=_int(fields, "h"),
        born_ms=max(0, int64("bornTimestamp", fields.get("g") or "0")),
        born_host=client.peer.born_host,
        reconsume_times=max(0, times),
    )
    return message, frame.code == codes.SEND_BATCH or fields.get("m", "").lower() in _TRUE


def _properties(frame: Frame, fields: dict[str, str]) -> bytes:
    """The properties byte for byte: what is not UTF-8 is for `_storable` to refuse, and not to be replaced on the way there."""
    text = fields.get("i", "")
    if _REPLACED not in text or frame.serialize != BINARY:
        return text.encode("utf-8", "surrogatepass")
    found = split(frame.ext) or {}
    return found.get(b"properties" if frame.code in (codes.SEND, codes.SEND_REPLY) else b"i", text.encode())


def _int(fields: dict[str, str], name: str, absent: int = 0) -> int:
    value = fields.get(name)
    if not value:
        return absent
    found = int64(name, value)
    if not -0x80000000 <= found <= 0x7FFFFFFF:
        raise RequestError(codes.INVALID_PARAMETER, f"the custom field <{name}> is out of range: {found}")
    return found


def _storable(stored: bytes) -> bytes:
    """Properties as they are stored: UTF-8, ending with U+0002, without POP_CK and HG_ properties of the client.

    Raises RequestError.
    """
    try:
        stored.decode()
    except UnicodeDecodeError as error:
        raise RequestError(codes.MESSAGE_ILLEGAL, "the properties are not UTF-8") from error
    if stored and not stored.endswith(b"\x02"):
        stored += b"\x02"
    if properties.has(stored, properties.POP_CK_START) or properties.has(stored, properties.HG_BYTES):
        kept = [
            piece
            for piece in stored.split(b"\x02")
            if piece and not piece.startswith(properties.HG_BYTES) and not piece.startswith(properties.POP_CK_START)
        ]
        stored = b"".join(piece + b"\x02" for piece in kept)
    if marks.may_have_marks(stored):
        try:
            stored = marks.stored_form(stored)
        except ValueError as error:
            raise RequestError(codes.MESSAGE_ILLEGAL, str(error)) from error
    return _with_region(stored)


def _with_region(stored: bytes) -> bytes:
    """The properties with MSG_REGION: consumers trace messages with a region only (AsyncTraceDispatcher)."""
    return stored if properties.has(stored, properties.MSG_REGION_START) else stored + _MSG_REGION


def _batch(common: Message) -> list[Message]:
    """A batch body -> its messages in order (MessageDecoder.decodeMessages). Raises RequestError when lengths do not add up."""
    if common.topic.startswith("%"):
        raise RequestError(codes.MESSAGE_ILLEGAL, "a batch may not go to a retry topic")
    body = common.body
    size = len(body)
    if size > limits.BATCH_BYTES_MAX:
        raise RequestError(codes.MESSAGE_ILLEGAL, f"the batch has {size} bytes, {limits.BATCH_BYTES_MAX} are allowed")
    out: list[Message] = []
    at = 0
    while at < size:
        if at + 22 > size or len(out) >= limits.BATCH_MESSAGES_MAX:
            raise RequestError(codes.MESSAGE_ILLEGAL, f"the batch breaks off, or has too many messages, after {len(out)}")
        total, _, _, flag, length = _ENTRY.unpack_from(body, at)
        start = at + 20
        end = start + length
        if total < 22 or at + total > size or length < 0 or end + 2 > at + total:
            raise RequestError(codes.MESSAGE_ILLEGAL, f"message {len(out)} of the batch has lengths that do not fit")
        stop = end + 2 + (body[end] << 8 | body[end + 1])
        if stop != at + total:
            raise RequestError(codes.MESSAGE_ILLEGAL, f"message {len(out)} of the batch has lengths that do not fit")
        stored = _storable(body[end + 2 : stop])
        if properties.has(stored, properties.DELAY_START) and properties.find(stored, properties.DELAY_START):
            raise RequestError(codes.MESSAGE_ILLEGAL, "a batch may not carry delayed messages")
        if common.sys_flag & SYS_PREPARED or properties.has(stored, _HALF_MESSAGE):
            raise RequestError(codes.MESSAGE_ILLEGAL, "a batch may not carry half messages of transactions")
        out.append(
            Message(
                common.topic,
                body[start:end],
                stored,
                queue_id=common.queue_id,
                message_id=properties.text(stored, properties.UNIQ_KEY),
                sys_flag=common.sys_flag,
                flag=flag,
                born_ms=common.born_ms,
                born_host=common.born_host,
                retain=marks.retain_of(common.topic, stored),
            )
        )
        at += total
    if not out:
        raise RequestError(codes.MESSAGE_ILLEGAL, "the batch is empty")
    return out


def _size(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


_SIZES: Final[tuple[bytes, ...]] = tuple(size.to_bytes(4, "big") for size in range(256))
_ID: Final = b"\x00\x0dtransactionId"
_REPLY_EXT_START: Final = (
    b"\x00\x0aMSG_REGION" + _size(REGION.encode()) + b"\x00\x08TRACE_ON" + _size(b"true") + b"\x00\x05msgId"
)
_REPLY_JSON: Final = (
    b'{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true","msgId":"%b","queueId":"%d",'
    b'"queueOffset":"%d","transactionId":"%b"},"flag":1,"language":"JAVA","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
_QUEUE: Final = b"\x00\x07queueId"
_OFFSET: Final = b"\x00\x0bqueueOffset"


def sent(client: Client, ticket: Ticket, event: Sent) -> bytes:
    """Sent -> a reply. msgId has the offset message ids of all messages, queueOffset is that of the first message."""
    placed = event.placed[0]
    unique = placed.message_id.encode()
    if len(event.placed) == 1:
        offset_id = client.node.host_hex + b"%016X" % placed.physical_offset
    else:
        offset_id = b",".join(client.node.host_hex + b"%016X" % each.physical_offset for each in event.placed)
    if placed.recall_handle:
        return _encode_sent(ticket, placed, offset_id)
    if ticket.serialize == BINARY and len(offset_id) < 256 and 0 < len(unique) < 256:
        queue_id = b"%d" % placed.queue_id
        offset = b"%d" % placed.queue_offset
        ext = b"".join(
            (
                _REPLY_EXT_START, _SIZES[len(offset_id)], offset_id, _QUEUE, _SIZES[len(queue_id)], queue_id,
                _OFFSET, _SIZES[len(offset)], offset, _ID, _SIZES[len(unique)], unique,
            )
        )  # fmt: skip
        size = len(ext)
        return _REPLY.pack(25 + size, 0x01000015 + size, 0, 0, 479, ticket.opaque, 1, 0, size) + ext
    if ticket.serialize != BINARY and unique.isalnum():
        header = _REPLY_JSON % (offset_id, placed.queue_id, placed.queue_offset, unique, ticket.opaque)
        size = len(header)
        return (4 + size).to_bytes(4, "big") + size.to_bytes(4, "big") + header
    return _encode_sent(ticket, placed, offset_id)


def _encode_sent(ticket: Ticket, placed: Placed, offset_id: bytes) -> bytes:
    """The reply of a send, in any encoding; with recallHandle when the message is a timer."""
    fields = {
        properties.MSG_REGION: REGION,
        properties.TRACE_ON: "true",
        "msgId": offset_id.decode(),
        "queueId": str(placed.queue_id),
        "queueOffset": str(placed.queue_offset),
        "transactionId": placed.message_id,
    }
    if placed.recall_handle:
        fields["recallHandle"] = placed.recall_handle
    return ticket.reply(codes.SUCCESS, fields)


def flush_timeout(client: Client, ticket: Ticket, failure: Failure) -> bytes:
    """The reply FLUSH_DISK_TIMEOUT, or FLUSH_SLAVE_TIMEOUT when replicas are waited for: stored, durability not confirmed.

    It has all fields, which clients require.
    """
    no_offset_id = client.node.host_hex.decode() + "0" * 16
    fields = {
        properties.MSG_REGION: REGION,
        properties.TRACE_ON: "true",
        "msgId": no_offset_id,
        "queueId": "0",
        "queueOffset": "-1",
    }
    return ticket.reply(response_code(failure, ticket.code), fields, remark=failure.text)
