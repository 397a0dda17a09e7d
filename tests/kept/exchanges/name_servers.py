"""How a node registers itself at name servers, and their answers."""

from __future__ import annotations

from functools import partial
from typing import Any

from domain.event import Done
from domain.nameserver.route import (
    BrokerRegistered,
    BrokerRenewed,
    DataVersion,
    PageRegistered,
    Registration,
    TopicPage,
    TopicQueues,
)
from gateway.link.request import Request
from protocols.remoting.dispatch import READERS
from protocols.remoting.nameserver import announcement
from protocols.remoting.wire import bean
from tests.kept.exchanges.exchange import Exchanges, answer, head_of, request

BROKER = Registration("main", "broker-a", 0, "10.0.0.1:10911", "10.0.0.1:10912", 30_000)
VERSION = DataVersion(2, 1_700_000_000_000, 9)
TOPICS = {"orders": TopicQueues("broker-a", 8, 4, 6), "prices": TopicQueues("broker-a", 1, 1, 4, 1)}
MANY = {f"topic-{number:04}": TopicQueues("broker-a", 8, 8, 6) for number in range(80)}


def _sent(made: announcement.Request) -> Any:
    return partial(Request(*made).encoded, 7, None)


REGISTER = _sent(announcement.register(BROKER, VERSION, TOPICS))
PAGE = _sent(announcement.register_page(BROKER, VERSION, TopicPage(1, 7, True, TOPICS, ["gone"])))
COMPARE = _sent(announcement.compare(BROKER, VERSION))
UNREGISTER = _sent(announcement.unregister(BROKER))


def _said(frame: Any) -> Any:
    return [head_of(frame)[5], bean.read(frame.body) if frame.body else None]


NAME_SERVERS: Exchanges = {
    "register": request(READERS, REGISTER),
    "register, compressed": request(READERS, _sent(announcement.register(BROKER, VERSION, MANY))),
    "answer to register": answer(
        READERS, REGISTER, BrokerRegistered(None, "10.0.0.1:10911", "10.0.0.1:10912", {"orders": "broker-a:8"}), _said
    ),
    "first page": request(READERS, _sent(announcement.register_page(BROKER, VERSION, TopicPage(0, None, False, TOPICS)))),
    "last page of changes": request(READERS, PAGE),
    "answer to a page": answer(READERS, PAGE, PageRegistered(None, True), _said),
    "answer to a page that is not taken": answer(READERS, PAGE, PageRegistered(None, False), _said),
    "compare": request(READERS, COMPARE),
    "answer to compare": answer(READERS, COMPARE, BrokerRenewed(None, True, VERSION), _said),
    "answer to compare of one that is not registered": answer(READERS, COMPARE, BrokerRenewed(None, True, None), _said),
    "unregister": request(READERS, UNREGISTER),
    "answer to unregister": answer(READERS, UNREGISTER, Done(None), _said),
}
