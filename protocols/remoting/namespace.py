"""Namespaces that the server adds for a client (`setNamespaceV2`: ext fields `nsd` and `ns`, NamespaceRpcHook).

In received frames, names become `namespace%name`; in sent frames, `namespace%` is removed again. All other modules see stored
names only. Clients with `setNamespace` write stored names themselves and do not need this module.

    ext fields    those that hold topics and groups are renamed
    JSON bodies   values of keys that hold topics and groups are renamed
    records       the topic, and properties that hold topics and groups, are renamed

A connection without namespaces has no Namespaces object, and its frames are not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, final

from domain.address import RETRY_PREFIX, in_namespace, is_system_topic, out_of_namespace
from domain.message import property as properties
from domain.message.record import Record, renamed
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, encode_ext, octets, split, text

FIELD_BYTES: Final = b"\x00\x02ns\x00"
"""Key of the field `ns` in a binary ext section, with the first byte of its value's length."""
FIELD_NAME: Final = "ns"
WAITING_MAX: Final = 65_536
"""Requests of one connection whose replies are renamed; beyond, the oldest is forgotten."""

_GROUPS: Final = ("consumerGroup", "producerGroup", "group", "groupName", "srcGroup", "destGroup", "compareGroup")
_TOPICS: Final = ("topic", "originTopic", "parentTopic")
_SHORT: Final = frozenset({codes.SEND_V2, codes.SEND_BATCH, codes.SEND_REPLY_V2})
"""Requests whose ext fields have names of one letter: a is the group, b the topic, i the properties."""
_MESSAGES: Final = frozenset({codes.SEND, codes.SEND_V2, codes.SEND_BATCH, codes.SEND_REPLY, codes.SEND_REPLY_V2})
"""Requests whose body is the body of a message: it is not renamed."""
_RECORDS: Final = frozenset(
    {codes.PULL, codes.LITE_PULL, codes.POP, codes.POP_LITE, codes.PEEK, codes.QUERY_MESSAGE, codes.VIEW_MESSAGE}
)  # fmt: skip
"""Requests whose replies have records as body."""
_REQUESTS_WITH_RECORD: Final = frozenset({codes.CHECK_TRANSACTION, codes.CONSUME_DIRECTLY})
"""Requests of the node whose body is a record."""
_LITE: Final = frozenset(
    {codes.GET_LITE_NODE, codes.GET_LITE_PARENT, codes.GET_LITE_TOPIC, codes.GET_LITE_CLIENT, codes.GET_LITE_GROUP}
)  # fmt: skip
"""Requests whose replies have names as list elements, as keys, and in names of lite queues."""
_JSON: Final = re.compile(rb'"(?:topic|topicName|parentTopic|group|groupName|consumerGroup)"\s*:\s*"([^"\\]*)"')
_ANY: Final = re.compile(rb'"(?:%LMQ%\$)?([^"\\$]*)')
_BATCH_ACK: Final = re.compile(rb'"[ct]"\s*:\s*"([^"\\]*)"')
_NAMING: Final = (properties.PGROUP, properties.RETRY_TOPIC, properties.REAL_TOPIC, properties.DLQ_ORIGIN_TOPIC)
_PROPERTY: Final = re.compile(rb"(?<![^\x02])(?:(?:" + b"|".join(name.encode() for name in _NAMING) + rb")\x01)([^\x02]*)")
_DISPATCH: Final = re.compile(rb"(?<![^\x02])" + properties.INNER_MULTI_DISPATCH_START + rb"[^\x02]*")
_KEPT: Final = "surrogateescape"
"""How bytes that are not UTF-8 are decoded, so that they are encoded as they were."""
_LITE_QUEUE: Final = re.compile(rb"(?<=[\x01,])%LMQ%\$([^,$]*)")

Rename = Callable[[str], str]


def namespace_of(frame: Frame) -> str:
    """The namespace of a request, "" without one."""
    if frame.ext and frame.ext.find(FIELD_BYTES) < 0:  # `in` takes the bytes for a number first, and catches the exception
        return ""
    return (frame.fields() or {}).get(FIELD_NAME, "")


@final
class Namespaces:
    """The namespaces of one connection.

    _space    namespace of the last request: that of requests which the node sends
    _waiting  opaque -> (request code, namespace) of each request that is not answered
    """

    def __init__(self) -> None:
        self._space = ""
        self._waiting: dict[int, tuple[int, str]] = {}
        self._decoder = FrameDecoder()

    def to_stored(self, frame: Frame) -> Frame:
        """The request with stored names, unchanged without a namespace. An illegal namespace yields illegal names."""
        space = namespace_of(frame)
        if not space:
            return frame
        fields = _exact(frame)
        if fields is None:
            return frame
        self._space = space
        if not frame.oneway:
            if len(self._waiting) >= WAITING_MAX:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[frame.opaque] = (frame.code, space)

        def wrap(name: str) -> str:
            return in_namespace(space, name) or "."

        pattern = _BATCH_ACK if frame.code == codes.BATCH_ACK else _JSON
        body = frame.body if frame.code in _MESSAGES else _substituted(pattern, frame.body, wrap)
        return _copy(frame, _fields(frame.code, fields, wrap), body)

    def reply_to_stored(self, frame: Frame) -> Frame:
        """The client's reply to a request of the node, with stored names."""
        space = self._space
        return _copy(frame, frame.fields() or {}, _substituted(_JSON, frame.body, lambda name: in_namespace(space, name)))

    def to_client(self, data: bytes) -> bytes:
        """Encoded frames (whole ones) with the names that the client uses."""
        return b"".join(self._frame_to_client(frame) for frame in self._decoder.feed(data))

    def _frame_to_client(self, frame: Frame) -> bytes:
        fields = _exact(frame) or {}
        if frame.response:
            code, space = self._waiting.pop(frame.opaque, (0, ""))
            records = code in _RECORDS and frame.code == codes.SUCCESS
        else:
            code, space = frame.code, self._space
            records = code in _REQUESTS_WITH_RECORD
        if not space:
            return _encoded(frame, frame.code, fields, frame.body, frame.remark)

        def unwrap(name: str) -> str:
            return out_of_namespace(space, name)

        if not records:
            fields = fields if frame.response else _fields(code, fields, unwrap)
            pattern = _ANY if code in _LITE else _JSON
            return _encoded(frame, frame.code, fields, _substituted(pattern, frame.body, unwrap), frame.remark)
        body = _records(frame.body, unwrap)
        if not body and frame.body:
            return _encoded(frame, codes.QUERY_NOT_FOUND, fields, b"", "there is no such message in this namespace")
        return _encoded(frame, frame.code, fields if frame.response else _fields(code, fields, unwrap), body, frame.remark)


def _exact(frame: Frame) -> dict[str, str] | None:
    """The ext fields; bytes that are not UTF-8 stay what they are, for properties may have them. None: they are malformed."""
    found = split(frame.ext) if frame.serialize == BINARY else None
    if found is None:
        return frame.fields()
    return {text(name): value.decode("utf-8", _KEPT) for name, value in found.items()}


def _fields(code: int, fields: dict[str, str], rename: Rename) -> dict[str, str]:
    """The ext fields with names renamed. In the topics `%RETRY%group+topic` and `%RETRY%group_topic` of POP both names are."""
    found = dict(fields)
    short = code in _SHORT
    group = fields.get("consumerGroup", "")
    for name in ("a", "b") if short else (*_GROUPS, *_TOPICS):
        value = found.get(name)
        if not value:
            continue
        parked = f"{RETRY_PREFIX}{group}"
        if group and name == "topic" and value.startswith((f"{parked}_", f"{parked}+")):
            separator, origin = value[len(parked)], value[len(parked) + 1 :]
            found[name] = f"{RETRY_PREFIX}{rename(group)}{separator}{rename(origin)}"
        else:
            found[name] = rename(value)
    stored = "i" if short else "properties"
    if found.get(stored):
        found[stored] = _renamed_properties(octets(found[stored]), rename).decode("utf-8", _KEPT)
    return found


def _substituted(pattern: re.Pattern[bytes], body: bytes, rename: Rename) -> bytes:
    """The body with every name renamed that group 1 of `pattern` matches. A quote in a JSON string is escaped: no match."""
    if not body:
        return body

    def put(found: re.Match[bytes]) -> bytes:
        start, end = found.start(1) - found.start(), found.end(1) - found.start()
        whole = found[0]
        return whole[:start] + rename(found[1].decode("utf-8", "replace")).encode() + whole[end:]

    return pattern.sub(put, body)


def _renamed_properties(stored: bytes, rename: Rename) -> bytes:
    stored = _substituted(_PROPERTY, stored, rename)
    if not properties.has(stored, properties.INNER_MULTI_DISPATCH_START):
        return stored
    return _DISPATCH.sub(lambda found: _substituted(_LITE_QUEUE, found[0], rename), stored)


def _records(body: bytes, rename: Rename) -> bytes:
    """The records with the names that the client uses; records of other namespaces are left out."""
    out: list[bytes] = []
    at = 0
    while at + 4 <= len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if size <= 0:
            break
        data = body[at : at + size]
        record = Record(data)
        name = rename(record.topic)
        if name != record.topic or is_system_topic(name):
            out.append(renamed(data, name, _renamed_properties(record.properties, rename)))
        at += size
    return b"".join(out)


def _copy(frame: Frame, fields: dict[str, str], body: bytes) -> Frame:
    """A copy of the frame with other ext fields and another body."""
    copy = Frame(frame.serialize, body)
    copy.code, copy.language, copy.version = frame.code, frame.language, frame.version
    copy.opaque, copy.flag, copy.remark = frame.opaque, frame.flag, frame.remark
    if frame.serialize == BINARY:
        copy.ext = encode_ext(fields)
    else:
        copy.set_fields(fields)
    return copy


def _encoded(frame: Frame, code: int, fields: dict[str, str], body: bytes, remark: str) -> bytes:
    return encode(
        code,
        frame.opaque,
        fields=fields,
        body=body,
        flag=frame.flag,
        remark=remark,
        serialize=frame.serialize,
        language=frame.language,
        version=frame.version,
    )
