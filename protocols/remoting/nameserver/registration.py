"""Registration of other brokers at the name server: codes 103, 104, 322 and 904 (RocketMQ's RegisterBrokerBody), and 30012."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final, final

from domain.address import is_topic
from domain.message.crc32 import crc32
from domain.nameserver.route import (
    BrokerRegistered,
    BrokerRenewed,
    DataVersion,
    PageRegistered,
    RegisterBroker,
    RegisterPage,
    Registration,
    RenewBroker,
    TopicPage,
    TopicQueues,
)
from protocols.compression import Inflater
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Steps, Ticket
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame

INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of a compressed body after decompression, as many as a frame may have."""
PIECE_BYTES_MAX: Final = 64 * 1024
"""Bytes of one field of a compressed body: the data version, or a topic with its attributes."""
TOPICS_MAX: Final = 262_144
"""Topics of one registration; topics beyond are ignored."""
PAGE_TOPICS_MAX: Final = 4_096
"""Topics of one page (code 30012)."""
ROW_NUMBERS: Final = 4
"""Numbers of a topic in a page: read queues, write queues, perm, sysFlag."""
NUMBER_MAX: Final = 0x7FFFFFFF
TOPICS_AT_ONCE: Final = 256
"""Topics that are read in one turn of the loop."""
LEASE_MS: Final = 120_000
"""Time for which a registration is valid when the broker names none."""
LEASE_MS_MAX: Final = 3_600_000
ADDRESS_CHARS_MAX: Final = 255

_INT = struct.Struct(">i")

Reading = Generator[None, None, tuple[DataVersion, dict[str, TopicQueues]]]
"""Reads the topics of a body; yields where a turn ends."""


def register(_client: Client, frame: Frame) -> Steps:
    """Request code 103 -> RegisterBroker, after as many turns as its topics take."""
    args = Arguments(frame)
    crc = args.number("bodyCrc32", 0)
    if crc and crc32(frame.body) & 0x7FFFFFFF != crc:
        raise RequestError(codes.SYSTEM_ERROR, "crc32 not match")
    broker = _name(args.text("brokerName"))
    version, topics = DataVersion(), None
    if frame.body:
        version, topics = yield from (_compressed if args.flag("compressed") else _plain)(frame.body, broker)
    return (RegisterBroker(Ticket(frame, _registered), _registration(args, broker, version, topics)),)


def _registration(args: Arguments, broker: str, version: DataVersion, topics: dict[str, TopicQueues] | None) -> Registration:
    return Registration(
        _name(args.text("clusterName")),
        broker,
        max(0, args.number("brokerId")),
        _address(args.text("brokerAddr")),
        args.text("haServerAddr", "")[:ADDRESS_CHARS_MAX],
        max(1_000, min(args.number("heartbeatTimeoutMillis", LEASE_MS), LEASE_MS_MAX)),
        args.text("__ZONE_NAME", "")[:ADDRESS_CHARS_MAX],
        args.flag("enableActingMaster"),
        version,
        topics,
    )


def _registered(_client: Client, ticket: Ticket, event: BrokerRegistered) -> bytes:
    body = fastjson.dumps({"table": dict(event.order)}) if event.order else b""
    return ticket.reply(codes.SUCCESS, {"haServerAddr": event.ha_address, "masterAddr": event.master}, body)


def register_page(_client: Client, frame: Frame) -> Steps:
    """Request code 30012 -> RegisterPage, after as many turns as its topics take."""
    args = Arguments(frame)
    broker = _name(args.text("brokerName"))
    version = DataVersion(args.number("stateVersion"), args.number("timestamp"), args.number("counter"))
    base = args.number("base") if args.has("base") else None
    topics, gone = yield from _rows(frame.body, broker)
    page = TopicPage(max(0, args.number("page")), base, args.flag("last"), topics, gone)
    return (RegisterPage(Ticket(frame, _paged), _registration(args, broker, version, None), page),)


def _rows(body: bytes, broker: str) -> Generator[None, None, tuple[dict[str, TopicQueues], list[str]]]:
    """`[[topic, read queues, write queues, perm, sysFlag], ..., [topic that is gone], ...]`."""
    topics: dict[str, TopicQueues] = {}
    gone: list[str] = []
    shared = SharedQueues(broker)
    try:
        rows = fastjson.loads(body or b"[]")
    except fastjson.DialectError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"the body cannot be read: {error}") from error
    if not isinstance(rows, list) or len(rows) > PAGE_TOPICS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"the body is no list, or has more than {PAGE_TOPICS_MAX} topics")
    for at, row in enumerate(rows, 1):
        if at % TOPICS_AT_ONCE == 0:
            yield
        name, *numbers = row if isinstance(row, list) and row else (None,)
        if not isinstance(name, str) or not is_topic(name) or not all(type(each) is int for each in numbers):
            raise RequestError(codes.INVALID_PARAMETER, f"row {at} is no topic: {str(row)[:80]}")
        if not numbers:
            gone.append(name)
        elif len(numbers) == ROW_NUMBERS and all(0 <= each <= NUMBER_MAX for each in numbers):
            topics[name] = shared.of(*numbers)
        else:
            raise RequestError(codes.INVALID_PARAMETER, f"row {at} has other numbers than queues, perm and sysFlag")
    return topics, gone


def _paged(_client: Client, ticket: Ticket, event: PageRegistered) -> bytes:
    return ticket.reply(codes.SUCCESS, {"taken": "true" if event.taken else "false"})


@final
class SharedQueues:
    """The queues of the topics of one request: topics that differ in nothing but their names share one object."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._known: dict[tuple[int, int, int, int], TopicQueues] = {}

    def of(self, read_queues: int, write_queues: int, perm: int, sys_flag: int) -> TopicQueues:
        """The queues with these values."""
        key = (read_queues, write_queues, perm, sys_flag)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = TopicQueues(self._broker, *key)
        return found


def compare(_client: Client, frame: Frame) -> Outcome:
    """Request code 322 -> RenewBroker with the broker's data version. Flag of the reply: the broker must register."""
    args = Arguments(frame)
    version = _version(bean.read(frame.body)) if frame.body else None
    command = RenewBroker(
        Ticket(frame, _compared), args.text("clusterName"), args.text("brokerName"), args.text("brokerAddr"), version
    )
    return (command,)


def _compared(_client: Client, ticket: Ticket, event: BrokerRenewed) -> bytes:
    body = b""
    if event.version is not None:
        known = event.version
        body = fastjson.dumps(fastjson.data_version(known.timestamp_ms, known.counter, known.state))
    return ticket.reply(codes.SUCCESS, {"changed": "true" if event.changed else "false"}, body)


def _version(found: bean.Bean) -> DataVersion:
    return DataVersion(bean.number(found, "stateVersion"), bean.number(found, "timestamp"), bean.number(found, "counter"))


def _plain(body: bytes, broker: str) -> Reading:
    found = bean.read(body)
    wrapper = bean.table(found, "topicConfigSerializeWrapper") or found
    topics: dict[str, TopicQueues] = {}
    shared = SharedQueues(broker)
    for at, (name, config) in enumerate(bean.table(wrapper, "topicConfigTable").items()):
        if at % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
            yield
        if isinstance(config, dict) and is_topic(name) and len(topics) < TOPICS_MAX:
            topics[name] = shared.of(
                bean.number(config, "readQueueNums", 16),
                bean.number(config, "writeQueueNums", 16),
                bean.number(config, "perm", 6),
                bean.number(config, "topicSysFlag"),
            )
    return _version(bean.table(wrapper, "dataVersion")), topics


def _compressed(body: bytes, broker: str) -> Reading:
    inflater = Inflater(body, INFLATED_BYTES_MAX)
    topics: dict[str, TopicQueues] = {}
    shared = SharedQueues(broker)
    try:
        version = _version(bean.read(_piece(inflater)))
        for at in range(max(0, min(_INT.unpack(inflater.read(4))[0], TOPICS_MAX))):
            if at % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
                yield
            words = _piece(inflater).decode("utf-8", "replace").split(" ")
            if len(words) >= 4 and is_topic(words[0]) and all(each.isascii() and each.isdigit() for each in words[1:4]):
                topics[words[0]] = shared.of(_small(words[1]), _small(words[2]), _small(words[3]), 0)
    except ValueError as error:
        raise RequestError(codes.SYSTEM_ERROR, f"register broker failed: {error}") from error
    return version, topics


def _piece(inflater: Inflater) -> bytes:
    """The next field: its length in 4 bytes, and as many bytes. Raises ValueError."""
    size = _INT.unpack(inflater.read(4))[0]
    if not 0 <= size <= PIECE_BYTES_MAX:
        raise ValueError(f"a field of {size} bytes, {PIECE_BYTES_MAX} are allowed")
    return inflater.read(size)


def _small(digits: str) -> int:
    return int(digits[:9])


def _name(text: str) -> str:
    if not is_topic(text):
        raise RequestError(codes.SYSTEM_ERROR, f"register broker failed: {text[:80]!r} is not a name")
    return text


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or len(text) > ADDRESS_CHARS_MAX or "," in text or not text.isprintable() or not port.isdigit():
        raise RequestError(codes.SYSTEM_ERROR, f"register broker failed: {text[:80]!r} is not host:port")
    return text
