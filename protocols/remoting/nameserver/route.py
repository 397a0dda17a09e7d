"""Requests to the name server: codes 100 to 106, 205, 206, 216, 217, 219, 224, 304, 318, 319, 322, 327 and 904."""

from __future__ import annotations

from collections.abc import Mapping

from domain.event import Event
from domain.nameserver.route import (
    ORDER_KEY,
    OWN_NAMESPACE,
    BrokerAddresses,
    ClusterFound,
    DropRoute,
    ListRoutes,
    PutSetting,
    QueryCluster,
    QueryRoute,
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
from protocols.remoting.tools.node import properties
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.header import VERSION


def route(_client: Client, frame: Frame) -> Outcome:
    """Request code 105 -> QueryRoute."""
    return (QueryRoute(Ticket(frame, _routed), Arguments(frame).text("topic")),)


def _routed(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, RouteFound)
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


def cluster(_client: Client, frame: Frame) -> Outcome:
    """Request code 106 -> QueryCluster."""
    return (QueryCluster(Ticket(frame, _clustered)),)


def _clustered(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, ClusterFound)
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


def _member(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, ClusterFound)
    for each in event.brokers:
        if (each.cluster, each.broker) == ticket.request_data:
            return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"brokerMemberGroup": _broker(client, each)}))
    return ticket.reply(codes.SUCCESS, body=b"{}")


def topics(_client: Client, frame: Frame) -> Outcome:
    """Request code 206 -> ListRoutes of all clusters."""
    return (ListRoutes(Ticket(frame, _named)),)


def topics_of_cluster(_client: Client, frame: Frame) -> Outcome:
    """Request code 224 -> ListRoutes of one cluster."""
    return (ListRoutes(Ticket(frame, _named), Arguments(frame).text("cluster")),)


def _named(_client: Client, ticket: Ticket, event: Event) -> Rendering:
    assert isinstance(event, RouteNames)
    body = yield from fastjson.listing(b"topicList", event.topics)
    return ticket.reply(codes.SUCCESS, body=body)


def system_topics(_client: Client, frame: Frame) -> Outcome:
    """Request code 304 -> QueryCluster. The reply has the topics named after clusters and brokers, and a broker address."""
    return (QueryCluster(Ticket(frame, _system)),)


def _system(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, ClusterFound)
    names = {each.cluster for each in event.brokers} | {each.broker for each in event.brokers}
    body: dict[str, object] = {"topicList": sorted(names)}
    for each in event.brokers:
        for where in each.addresses.values():
            body.setdefault("brokerAddr", where or client.node.address)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def drop(_client: Client, frame: Frame) -> Outcome:
    """Request code 216 -> DropRoute. Topics of this node are deleted by code 215, which tools send first."""
    args = Arguments(frame)
    return (DropRoute(Ticket(frame, success), args.text("topic"), args.text("clusterName", "")),)


def put_key(_client: Client, frame: Frame) -> Outcome:
    """Request code 100 -> PutSetting."""
    args = Arguments(frame)
    return (PutSetting(Ticket(frame, success), args.text("namespace"), args.text("key"), args.text("value")),)


def delete_key(_client: Client, frame: Frame) -> Outcome:
    """Request code 102 -> PutSetting without value: deletes the setting."""
    args = Arguments(frame)
    return (PutSetting(Ticket(frame, success), args.text("namespace"), args.text("key"), None),)


def get_key(_client: Client, frame: Frame) -> Outcome:
    """Request code 101 -> QuerySettings."""
    args = Arguments(frame)
    key = args.text("key")
    return (QuerySettings(Ticket(frame, _value, key), args.text("namespace"), key),)


def _value(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, SettingsFound)
    assert isinstance(ticket.request_data, str)
    value = event.values.get(ticket.request_data)
    if value is None:
        return ticket.reply(codes.QUERY_NOT_FOUND, remark=f"no config item, key: {ticket.request_data}")
    return ticket.reply(codes.SUCCESS, {"value": value})


def list_keys(_client: Client, frame: Frame) -> Outcome:
    """Request code 219 -> QuerySettings of a namespace."""
    return (QuerySettings(Ticket(frame, _values), Arguments(frame).text("namespace")),)


def _values(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, SettingsFound)
    if not event.values:
        return ticket.reply(codes.QUERY_NOT_FOUND, remark="no config item in this namespace")
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"table": dict(event.values)}))


def wipe_write(_client: Client, frame: Frame) -> Outcome:
    """Request code 205 -> SetWritable(False)."""
    return (SetWritable(Ticket(frame, _changed, "wipeTopicCount"), Arguments(frame).text("brokerName"), False),)


def add_write(_client: Client, frame: Frame) -> Outcome:
    """Request code 327 -> SetWritable(True)."""
    return (SetWritable(Ticket(frame, _changed, "addTopicCount"), Arguments(frame).text("brokerName"), True),)


def _changed(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, WritableChanged)
    assert isinstance(ticket.request_data, str)
    return ticket.reply(codes.SUCCESS, {ticket.request_data: str(event.count)})


def configuration(_client: Client, frame: Frame) -> Outcome:
    """Request code 319 -> QuerySettings. The reply has the configuration of the name server."""
    return (QuerySettings(Ticket(frame, _configuration), OWN_NAMESPACE, ORDER_KEY),)


def _configuration(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, SettingsFound)
    own = client.node
    port = own.namesrv.rpartition(":")[2]
    order = event.values.get(ORDER_KEY, "true")
    text = f"listenPort={port}\nbindAddress={own.host}\n{ORDER_KEY}={order}\nserverVersion={VERSION}\n"
    return ticket.reply(codes.SUCCESS, body=text.encode())


def configure(_client: Client, frame: Frame) -> Outcome:
    """Request code 318 -> PutSetting of ORDER_KEY; response code 16 for any other setting."""
    wanted = properties(frame.body)
    if not wanted:
        raise RequestError(codes.INVALID_PARAMETER, "there is no key=value in it")
    fixed = [name for name in wanted if name != ORDER_KEY]
    if fixed:
        text = f"{', '.join(fixed)[:200]}: read at start from the configuration; while it runs, the name server can change "
        raise RequestError(codes.NO_PERMISSION, text + ORDER_KEY)
    value = wanted[ORDER_KEY].lower()
    if value not in ("true", "false"):
        raise RequestError(codes.INVALID_PARAMETER, f"{ORDER_KEY} is true or false")
    return (PutSetting(Ticket(frame, success), OWN_NAMESPACE, ORDER_KEY, value),)
