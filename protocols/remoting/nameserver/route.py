"""Requests to the name server: codes 100 to 106, 205, 206, 216, 217, 219, 224, 304, 318, 319, 322, 327 and 904."""

from __future__ import annotations

from collections.abc import Mapping

from domain.nameserver.route import (
    ORDER_KEY,
    OWN_NAMESPACE,
    BrokerAddresses,
    ClusterFound,
    PutSetting,
    QueryCluster,
    QuerySettings,
    RouteFound,
    RouteNames,
    SettingsFound,
    SetWritable,
    WritableChanged,
)
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, Rendering, RequestError, Ticket, success
from protocols.remoting.tools.node import changes
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.header import VERSION


def route(client: Client, ticket: Ticket, event: RouteFound) -> bytes:
    """Reply of 105: a TopicRouteData bean."""
    body: dict[str, object] = {
        "brokerDatas": [_broker(client, each) for each in event.brokers],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": each.broker,
                "perm": each.perm,
                "readQueueNums": each.read_queues,
                "topicSysFlag": each.sys_flag,
                "writeQueueNums": each.write_queues,
            }
            for each in event.queues
        ],
    }
    if event.order:
        body["orderTopicConf"] = event.order
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _broker(client: Client, broker: BrokerAddresses) -> Mapping[str, object]:
    """A BrokerData bean. The address of this node is empty in the event and filled in here."""
    bean: dict[str, object] = {
        "brokerAddrs": {str(each): where or client.node.address for each, where in sorted(broker.addresses.items())},
        "brokerName": broker.broker,
        "cluster": broker.cluster,
        "enableActingMaster": broker.acting_master,
    }
    if broker.zone:
        bean["zoneName"] = broker.zone
    return bean


def cluster(client: Client, ticket: Ticket, event: ClusterFound) -> bytes:
    """Reply of 106: a ClusterInfo bean."""
    names: dict[str, list[str]] = {}
    for each in event.brokers:
        names.setdefault(each.cluster, []).append(each.broker)
    body = {"brokerAddrTable": {each.broker: _broker(client, each) for each in event.brokers}, "clusterAddrTable": names}
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def members(_client: Client, frame: Frame) -> Outcome:
    """Request code 901 -> QueryCluster. The reply has one broker."""
    args = Arguments(frame)
    asked = (args.text("clusterName"), args.text("brokerName"))
    return (QueryCluster(Ticket(frame, _member, asked)),)


def _member(client: Client, ticket: Ticket, event: ClusterFound) -> bytes:
    for each in event.brokers:
        if (each.cluster, each.broker) == ticket.request_data:
            return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"brokerMemberGroup": _broker(client, each)}))
    return ticket.reply(codes.SUCCESS, body=b"{}")


def topics(_client: Client, ticket: Ticket, event: RouteNames) -> Rendering:
    """Reply of 206 and 224: a TopicList."""
    body = yield from fastjson.listing(b"topicList", event.topics)
    return ticket.reply(codes.SUCCESS, body=body)


def system_topics(client: Client, ticket: Ticket, event: ClusterFound) -> bytes:
    """Reply of 304: the topics named after clusters and brokers, and a broker address."""
    names = {each.cluster for each in event.brokers} | {each.broker for each in event.brokers}
    body: dict[str, object] = {"topicList": sorted(names)}
    for each in event.brokers:
        for where in each.addresses.values():
            body.setdefault("brokerAddr", where or client.node.address)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def get_key(_client: Client, ticket: Ticket, event: SettingsFound) -> bytes:
    """Reply of 101: field `value` has the value of the key; QUERY_NOT_FOUND without one."""
    _, key = ticket.request_data
    value = event.values.get(key)
    if value is None:
        return ticket.reply(codes.QUERY_NOT_FOUND, remark=f"no config item, key: {key}")
    return ticket.reply(codes.SUCCESS, {"value": value})


def list_keys(_client: Client, ticket: Ticket, event: SettingsFound) -> bytes:
    """Reply of 219: the settings of a namespace."""
    if not event.values:
        return ticket.reply(codes.QUERY_NOT_FOUND, remark="no config item in this namespace")
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"table": dict(event.values)}))


def set_writable(_client: Client, frame: Frame) -> Outcome:
    """Request codes 205, 327 -> SetWritable."""
    writable = frame.code == codes.ADD_WRITE
    field = "addTopicCount" if writable else "wipeTopicCount"
    return (SetWritable(Ticket(frame, _changed, field), Arguments(frame).text("brokerName"), writable),)


def _changed(_client: Client, ticket: Ticket, event: WritableChanged) -> bytes:
    return ticket.reply(codes.SUCCESS, {ticket.request_data: str(event.count)})


def configuration(_client: Client, frame: Frame) -> Outcome:
    """Request code 319 -> QuerySettings. The reply has the configuration of the name server."""
    return (QuerySettings(Ticket(frame, _configuration), OWN_NAMESPACE, ORDER_KEY),)


def _configuration(client: Client, ticket: Ticket, event: SettingsFound) -> bytes:
    own = client.node
    port = own.namesrv.rpartition(":")[2]
    order = event.values.get(ORDER_KEY, "true")
    text = f"listenPort={port}\nbindAddress={own.host}\n{ORDER_KEY}={order}\nserverVersion={VERSION}\n"
    return ticket.reply(codes.SUCCESS, body=text.encode())


def configure(_client: Client, frame: Frame) -> Outcome:
    """Request code 318 -> PutSetting of ORDER_KEY; response code 16 for any other setting."""
    wanted = changes(frame, (ORDER_KEY,), "read at start from the configuration; while it runs, the name server can change")
    value = wanted[ORDER_KEY].lower()
    if value not in ("true", "false"):
        raise RequestError(codes.INVALID_PARAMETER, f"{ORDER_KEY} is true or false")
    return (PutSetting(Ticket(frame, success), OWN_NAMESPACE, ORDER_KEY, value),)
