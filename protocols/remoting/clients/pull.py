"""Pull requests: request codes 11 and 361 -> Pull, Pulled -> a reply (RocketMQ's PullMessageRequestHeader, PullSysFlag)."""

from __future__ import annotations

from typing import Final

from domain.address import is_group
from domain.command import Pull
from domain.errors import Failure
from domain.event import Pulled
from domain.filter.filter import TAG, Filter
from domain.limits import PROPERTIES_BYTES_MAX, WAIT_MS_MAX
from domain.message import property as properties
from domain.message.record import Record, with_properties
from domain.octets import uint32
from domain.replication.reads import ELSEWHERE, PulledBy
from domain.topic import lite
from protocols import marks
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire.frame import Frame, head
from protocols.remoting.wire.header import FLAG_RESPONSE

COMMIT: Final = 1
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
CLASS_FILTER: Final = 8

ORIGIN_FIELD: Final = "hgOrigin"
"""Ext field of Headgate: "true" gives every stored record as it is: with its HG_ properties, and when it has expired, too."""
EPOCH_FIELD: Final = "hgEpoch"
"""Ext field of Headgate: the epoch of the topic that the offset belongs to. A topic with another one is replied as unknown."""

_STATUS: Final[dict[str, tuple[int, str]]] = {
    "FOUND": (codes.SUCCESS, "FOUND"),
    "NO_MATCH": (codes.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    "EMPTY": (codes.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    "TOO_SMALL": (codes.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
    "TOO_LARGE": (codes.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
    ELSEWHERE: (codes.PULL_RETRY_IMMEDIATELY, "this replica follows, and does not have that: ask the master"),
}


def read(client: Client, frame: Frame) -> Outcome:
    """Request codes 11, 361 -> Pull, with the filter of the request or of the last heartbeat. Raises RequestError."""
    args = Arguments(frame)
    group = args.text("consumerGroup")
    if not is_group(group):
        raise RequestError(codes.GROUP_NOT_EXIST, f"subscription group [{group[:80]}] does not exist: it is no legal name")
    topic = queue_of(args)
    flags = args.number("sysFlag")
    bound = args.number("maxMsgBytes", 0)
    if flags & CLASS_FILTER:
        raise RequestError(codes.SUBSCRIPTION_PARSE_FAILED, "class filters are not served by this broker")
    subscribed = broadcast = False
    if flags & SUBSCRIPTION:
        wanted = compiled(client, args.text("subscription", "*"), args.text("expressionType", TAG))
    else:
        known = client.subscription(group, lite.topic_of(topic))
        wanted = None if known is None else compiled(client, known.expression, known.expression_type)
        subscribed = known is None
        broadcast = client.is_broadcasting(group)
    offset = args.number("queueOffset")
    commit = args.number("commitOffset", -1) if flags & COMMIT else -1
    command = Pull(
        Ticket(frame, pulled, args.flag(ORIGIN_FIELD)),
        group,
        topic,
        args.number("queueId"),
        offset,
        max(1, args.number("maxMsgNums")),
        bound if bound > 0 else client.node.config.pull_bytes_default,
        wait_ms=max(0, min(args.number("suspendTimeoutMillis", 0), WAIT_MS_MAX)) if flags & SUSPEND else 0,
        filter=wanted,
        commit=commit,
        member=client.clustering_client_id(group),
        subscribed=subscribed,
        broadcast=broadcast,
        epoch=args.number(EPOCH_FIELD, -1),
        whole=args.flag(ORIGIN_FIELD),
    )
    return (command,)


def queue_of(args: Arguments) -> str:
    """The topic, or the lite queue of field liteTopic. Raises RequestError without a topic."""
    topic, name = args.text("topic"), args.text("liteTopic", "")
    return lite.queue_name(topic, name) if name.strip() else topic


def compiled(client: Client, expression: str, kind: str) -> Filter | None:
    """A filter expression -> its filter; None for all messages. Raises RequestError with SUBSCRIPTION_PARSE_FAILED."""
    found = client.node.expressions.compile(kind, expression)
    if isinstance(found, Failure):
        raise RequestError(codes.SUBSCRIPTION_PARSE_FAILED, found.text)
    return found


def pulled(_client: Client, ticket: Ticket, event: Pulled) -> bytes:
    """Pulled -> a reply: one header, then the stored records."""
    code, remark = _STATUS[event.status]
    fields = {
        "suggestWhichBrokerId": str(event.reader) if type(event) is PulledBy else "0",
        "nextBeginOffset": str(event.next_offset),
        "minOffset": str(event.min_offset),
        "maxOffset": str(event.max_offset),
    }
    records = event.records
    if not event.unmarked and not ticket.request_data:
        records = [without_origin(record) for record in records]
    size = 0
    for record in records:
        size += len(record)
    return b"".join((head(code, ticket.opaque, size, fields, FLAG_RESPONSE, remark, ticket.serialize), *records))


def without_origin(record: bytes) -> bytes:
    """The record without HG_ properties, which clients are not sent; content type and expiry have the names that SDKs know.

    The same object when it has none.
    """
    # Properties are last in a record, so the search begins after the body. Its length is at byte 84 when hosts have 4 bytes.
    start = 0
    if record[39] & 0x30 == 0:
        start = 88 + uint32(record, 84)
    if not properties.has(record[start:], properties.HG_BYTES):
        return record
    stored = Record(record).properties
    if not properties.has(stored, properties.HG_BYTES):
        return record
    return with_properties(record, properties_for_client(stored))


def properties_for_client(stored: bytes) -> bytes:
    """Stored properties without HG_ properties; content type and expiry have the names that SDKs know."""
    kept = [piece for piece in stored.split(b"\x02") if piece and not piece.startswith(properties.HG_BYTES)]
    out = b"".join([piece + b"\x02" for piece in kept])
    entries = marks.entries(stored)
    # The expiry is longer as text. Clients cannot read more bytes than these.
    return out + entries if len(out) + len(entries) <= PROPERTIES_BYTES_MAX else out
