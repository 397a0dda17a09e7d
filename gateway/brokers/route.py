"""Answers of name servers about topics and brokers, as values (request codes 105, 106 and 206)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from domain.limits import QUEUES_PER_TOPIC_MAX
from domain.nameserver.route import MASTER_ID, BrokerAddresses, TopicQueues
from gateway.brokers.document import document
from gateway.brokers.refusal import BrokerAnswerError

BROKERS_MAX: Final = 1_024
"""Brokers of one cluster."""
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class ApacheRoute:
    """The route of one topic.

    queues    its queues on each broker, by the brokers' names
    static    True: a static topic, whose queues are mapped to those of brokers (RIP-21)
    """

    queues: tuple[TopicQueues, ...]
    brokers: tuple[BrokerAddresses, ...]
    static: bool = False


def route_from(body: bytes) -> ApacheRoute:
    """TopicRouteData -> route. Raises BrokerAnswerError with what is wrong."""
    found = document(body)
    queues = sorted((_queues(each) for each in _list(found, "queueDatas")), key=lambda each: each.broker)
    if sum(max(each.read_queues, each.write_queues) for each in queues) > QUEUES_PER_TOPIC_MAX:
        raise BrokerAnswerError(f"more than {QUEUES_PER_TOPIC_MAX} queues")
    if len({each.broker for each in queues}) < len(queues):
        raise BrokerAnswerError("queues of one broker twice")
    return ApacheRoute(
        tuple(queues),
        tuple(_broker(each) for each in _list(found, "brokerDatas")),
        bool(found.get("topicQueueMappingByBroker")),
    )


def brokers_from(body: bytes) -> list[BrokerAddresses]:
    """ClusterInfo -> all brokers, by name. Raises BrokerAnswerError with what is wrong."""
    table = document(body).get("brokerAddrTable")
    if not isinstance(table, dict):
        raise BrokerAnswerError("no brokerAddrTable")
    if len(table) > BROKERS_MAX:
        raise BrokerAnswerError(f"more than {BROKERS_MAX} brokers")
    return sorted((_broker(each) for each in table.values()), key=lambda each: each.broker)


def names_from(body: bytes) -> list[str]:
    """TopicList -> the names of topics, sorted. Raises BrokerAnswerError with what is wrong."""
    return sorted({each for each in _list(document(body), "topicList") if isinstance(each, str)})


def _list(found: Mapping[str, object], name: str) -> Sequence[object]:
    items = found.get(name)
    if not isinstance(items, list):
        raise BrokerAnswerError(f"no list {name}")
    if name != "topicList" and len(items) > BROKERS_MAX:
        raise BrokerAnswerError(f"more than {BROKERS_MAX} {name}")
    return items


def _queues(found: object) -> TopicQueues:
    if not isinstance(found, dict):
        raise BrokerAnswerError("queues that are no JSON object")
    return TopicQueues(
        _name(found.get("brokerName")),
        _number(found, "readQueueNums", QUEUES_PER_TOPIC_MAX),
        _number(found, "writeQueueNums", QUEUES_PER_TOPIC_MAX),
        _number(found, "perm", 0xFF),
        _number(found, "topicSysFlag", 0x7FFFFFFF),
    )


def _broker(found: object) -> BrokerAddresses:
    addresses = found.get("brokerAddrs") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(addresses, dict) or len(addresses) > BROKERS_MAX:
        raise BrokerAnswerError("a broker without a table of addresses")
    by_id: dict[int, str] = {}
    for text, address in addresses.items():
        if not text.isascii() or not text.isdigit() or len(text) > 19 or not isinstance(address, str):
            raise BrokerAnswerError(f"a broker with an address that is none ({text[:40]!r})")
        by_id[int(text)] = address
    zone = found.get("zoneName")
    cluster = found.get("cluster")
    return BrokerAddresses(
        cluster if isinstance(cluster, str) else "",
        _name(found.get("brokerName")),
        by_id,
        zone if isinstance(zone, str) else "",
    )


def master_of(broker: BrokerAddresses) -> str:
    """`host:port` of the master, "" when there is none."""
    return broker.addresses.get(MASTER_ID, "")


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise BrokerAnswerError("a broker without a name")
    return value


def _number(found: Mapping[str, object], name: str, most: int) -> int:
    value = found.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BrokerAnswerError(f"{name} that is no number from 0 to {most}")
    return value
