"""Clients inside a namespace that leave it to the server (`setNamespaceV2`: ext fields `nsd` and `ns`, NamespaceRpcHook).

Their frames are rewritten on their way in, names to `namespace%name`, and what they get is rewritten on its way out; nobody
behind this module knows of it. Clients with `setNamespace` write these names themselves and need nothing of this.

    ext fields    topics and groups, by the names of the fields
    bodies        JSON, by the names of the keys; records, by their topic and by the properties that name topics and groups

Connections without namespaces have no object of this class, and cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, final

from domain import property as properties
from domain.address import RETRY_PREFIX, in_namespace, is_system_topic, out_of_namespace
from domain.record import Record, renamed
from protocols.remoting import codes
from protocols.remoting.frame import Frame, FrameDecoder, encode
from protocols.remoting.header import BINARY, encode_ext

FIELD_BYTES: Final = b"\x00\x02ns\x00"
"""The field `ns` in a binary ext section, as far as its length."""
FIELD_NAME: Final = "ns"
WAITING_MAX: Final = 65_536
"""Requests of a connection whose answers are to be rewritten; the oldest are forgotten."""

_GROUPS: Final = ("consumerGroup", "producerGroup", "group", "groupName", "srcGroup", "destGroup", "compareGroup")
_TOPICS: Final = ("topic", "originTopic", "parentTopic")
_SHORT: Final = frozenset({codes.SEND_V2, codes.SEND_BATCH, codes.SEND_REPLY_V2})
"""Requests whose fields have names of one letter: a is the group, b the topic, i the properties."""
_MESSAGES: Final = frozenset({codes.SEND, codes.SEND_V2, codes.SEND_BATCH, codes.SEND_REPLY, codes.SEND_REPLY_V2})
"""Requests whose bodies are what an application sends."""
_RECORDS: Final = frozenset(
    {codes.PULL, codes.LITE_PULL, codes.POP, codes.POP_LITE, codes.PEEK, codes.QUERY_MESSAGE, codes.VIEW_MESSAGE}
)  # fmt: skip
"""Requests that are answered with records."""
_REQUESTS_WITH_RECORD: Final = frozenset({codes.CHECK_TRANSACTION, codes.CONSUME_DIRECTLY})
"""Requests of ours that carry one."""
_LITE: Final = frozenset(
    {codes.GET_LITE_NODE, codes.GET_LITE_PARENT, codes.GET_LITE_TOPIC, codes.GET_LITE_CLIENT, codes.GET_LITE_GROUP}
)  # fmt: skip
"""Questions whose answers have names in lists, as keys, and in the names of lite queues."""
_JSON: Final = re.compile(rb'"(?:topic|topicName|parentTopic|group|groupName|consumerGroup)"\s*:\s*"([^"\\]*)"')
_ANY: Final = re.compile(rb'"(?:%LMQ%\$)?([^"\\$]*)')
_BATCH_ACK: Final = re.compile(rb'"[ct]"\s*:\s*"([^"\\]*)"')
_NAMING: Final = (properties.PGROUP, properties.RETRY_TOPIC, properties.REAL_TOPIC, properties.DLQ_ORIGIN_TOPIC)
_PROPERTY: Final = re.compile(
    rb"(?<![^\x02])(?:(?:"
    + b"|".join(name.encode() for name in _NAMING)
    + rb")\x01|"
    + properties.INNER_MULTI_DISPATCH_START
    + rb"%LMQ%\$)([^\x02$]*)"
)

Rename = Callable[[str], str]


def namespace_of(frame: Frame) -> str:
    """The namespace of a request, "" without one."""
    if frame.ext:
        return (frame.fields() or {}).get(FIELD_NAME, "") if FIELD_BYTES in frame.ext else ""
    return (frame.fields() or {}).get(FIELD_NAME, "")


@final
class Namespaces:
    """What one connection of such clients needs: which of its requests wait for answers, and the namespace for what we ask."""

    __slots__ = ("_decoder", "_space", "_waiting")

    def __init__(self) -> None:
        self._space = ""
        self._waiting: dict[int, tuple[int, str]] = {}
        self._decoder = FrameDecoder()

    def to_stored(self, frame: Frame) -> Frame:
        """A request with the names that are stored; one without a namespace as it is. Illegal namespaces make illegal names."""
        space = namespace_of(frame)
        fields = frame.fields()
        if not space or fields is None:
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
        """A client's reply to a question of ours: the topics in it are of its namespace."""
        space = self._space
        return _copy(frame, frame.fields() or {}, _substituted(_JSON, frame.body, lambda name: in_namespace(space, name)))

    def to_client(self, data: bytes) -> bytes:
        """Whole frames of ours with the names that the client knows."""
        return b"".join(self._frame_to_client(frame) for frame in self._decoder.feed(data))

    def _frame_to_client(self, frame: Frame) -> bytes:
        fields = frame.fields() or {}
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


def _fields(code: int, fields: dict[str, str], rename: Rename) -> dict[str, str]:
    """Ext fields renamed. The topic of a POP retry names group and topic: each of them is renamed."""
    found = dict(fields)
    short = code in _SHORT
    group = fields.get("consumerGroup", "")
    for name in ("a", "b") if short else (*_GROUPS, *_TOPICS):
        value = found.get(name)
        if not value:
            continue
        parked = f"{RETRY_PREFIX}{group}_"
        if group and name == "topic" and value.startswith(parked):
            found[name] = f"{RETRY_PREFIX}{rename(group)}_{rename(value[len(parked) :])}"
        else:
            found[name] = rename(value)
    stored = "i" if short else "properties"
    if found.get(stored):
        found[stored] = _renamed_properties(found[stored].encode(), rename).decode("utf-8", "replace")
    return found


def _substituted(pattern: re.Pattern[bytes], body: bytes, rename: Rename) -> bytes:
    """A body with every name that `pattern` finds renamed: its group is the name. Quotes in JSON texts are escaped."""
    if not body:
        return body

    def put(found: re.Match[bytes]) -> bytes:
        start, end = found.start(1) - found.start(), found.end(1) - found.start()
        whole = found[0]
        return whole[:start] + rename(found[1].decode("utf-8", "replace")).encode() + whole[end:]

    return pattern.sub(put, body)


def _renamed_properties(stored: bytes, rename: Rename) -> bytes:
    return _substituted(_PROPERTY, stored, rename)


def _records(body: bytes, rename: Rename) -> bytes:
    """Records under the names that the client knows; those that are of no matter to its namespace are left out."""
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
    """The frame with other ext fields and another body."""
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
