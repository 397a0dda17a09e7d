"""Requests by which a node registers itself at a name server: codes 103, 104, 322, and 30012 in pages."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from domain.message.crc32 import crc32
from domain.nameserver.route import DataVersion, Registration, TopicPage, TopicQueues
from protocols.remoting import codes
from protocols.remoting.wire import fastjson

COMPRESSED_FROM: Final = 8 * 1024
"""Bytes of a body of code 103 from which on it is compressed."""

_INT = struct.Struct(">i")

Request = tuple[int, dict[str, str], bytes]
"""(request code, ext fields, body)."""


def identity(broker: Registration) -> dict[str, str]:
    """The ext fields that name a broker."""
    return {
        "brokerName": broker.broker,
        "brokerAddr": broker.address,
        "clusterName": broker.cluster,
        "brokerId": str(broker.broker_id),
    }


def compare(broker: Registration, version: DataVersion) -> Request:
    """QUERY_DATA_VERSION: renews the registration, and asks whether the name server has another version."""
    return codes.QUERY_DATA_VERSION, identity(broker), fastjson.dumps(_bean(version))


def unregister(broker: Registration) -> Request:
    """UNREGISTER_BROKER: the broker leaves the name server, with its topics."""
    return codes.UNREGISTER_BROKER, identity(broker), b""


def register_page(broker: Registration, version: DataVersion, page: TopicPage) -> Request:
    """REGISTER_PAGE of a name server of Headgate."""
    fields = {
        **_registered(broker),
        "stateVersion": str(version.state),
        "timestamp": str(version.timestamp_ms),
        "counter": str(version.counter),
        "page": str(page.number),
        "last": "true" if page.last else "false",
    }
    if page.base is not None:
        fields["base"] = str(page.base)
    rows: list[list[object]] = [
        [name, each.read_queues, each.write_queues, each.perm, each.sys_flag] for name, each in page.topics.items()
    ]
    rows += [[name] for name in page.gone]
    return codes.REGISTER_PAGE, fields, fastjson.dumps(rows)


def register(broker: Registration, version: DataVersion, topics: Mapping[str, TopicQueues]) -> Request:
    """REGISTER_BROKER as RocketMQ's brokers send it; compressed when the body is long (RegisterBrokerBody.encode)."""
    body = _plain(version, topics)
    compressed = len(body) >= COMPRESSED_FROM
    if compressed:
        body = _compressed(version, topics)
    fields = {
        **_registered(broker),
        "enableActingMaster": "false",
        "compressed": "true" if compressed else "false",
        "bodyCrc32": str(crc32(body) & 0x7FFFFFFF),
    }
    return codes.REGISTER_BROKER, fields, body


def version_of(found: Mapping[str, object]) -> DataVersion | None:
    """A DataVersion bean; None when it is none."""
    numbers = [found.get(name) for name in ("stateVersion", "timestamp", "counter")]
    if not all(type(each) is int for each in numbers[1:]):
        return None
    state = numbers[0]
    return DataVersion(state if type(state) is int else 0, int(str(numbers[1])), int(str(numbers[2])))


def _registered(broker: Registration) -> dict[str, str]:
    return {**identity(broker), "haServerAddr": broker.ha_address, "heartbeatTimeoutMillis": str(broker.lease_ms)}


def _bean(version: DataVersion) -> Mapping[str, int]:
    return fastjson.data_version(version.timestamp_ms, version.counter, version.state)


def _plain(version: DataVersion, topics: Mapping[str, TopicQueues]) -> bytes:
    table = {
        name: {
            "attributes": {},
            "order": False,
            "perm": each.perm,
            "readQueueNums": each.read_queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": each.sys_flag,
            "writeQueueNums": each.write_queues,
        }
        for name, each in topics.items()
    }
    wrapper = {
        "dataVersion": _bean(version),
        "topicConfigTable": table,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return fastjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def _compressed(version: DataVersion, topics: Mapping[str, TopicQueues]) -> bytes:
    parts: list[bytes] = [_piece(fastjson.dumps(_bean(version))), _INT.pack(len(topics))]
    for name, each in topics.items():
        text = f"{name} {each.read_queues} {each.write_queues} {each.perm} SINGLE_TAG {{}}"
        parts.append(_piece(text.encode()))
    parts += (_piece(b"[]"), _INT.pack(0))
    return zlib.compress(b"".join(parts))


def _piece(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def split(topics: Sequence[tuple[str, TopicQueues | None]]) -> tuple[dict[str, TopicQueues], list[str]]:
    """(topics that are there, topics that are gone)."""
    there = {name: queues for name, queues in topics if queues is not None}
    return there, [name for name, queues in topics if queues is None]
