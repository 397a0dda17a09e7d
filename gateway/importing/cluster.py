"""The source cluster of an import, as reported by its name server and its brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from domain.errors import ConfigError
from gateway.client.connections import ServerConnections
from gateway.importing.server import Server, json_of, objects
from protocols.remoting import codes


class SourceBroker(NamedTuple):
    """The master of one broker name.

    topics    topic -> TopicConfig
    groups    group -> SubscriptionGroupConfig
    offsets   (topic, group) -> queue id -> committed offset
    users     UserInfo of each user
    policies  AclInfo of each user with policies
    closed    reason why it does not report users and policies; "": it reports them
    """

    name: str
    server: Server
    topics: dict[str, dict[str, object]]
    groups: dict[str, dict[str, object]]
    offsets: dict[tuple[str, str], dict[int, int]]
    users: list[dict[str, object]]
    policies: list[dict[str, object]]
    closed: str


def read_cluster(nameservers: Sequence[str], cluster: str, connections: ServerConnections) -> tuple[str, list[SourceBroker]]:
    """(name of the cluster, its brokers in the order of their names). Raises ConfigError.

    nameservers   host:port of each; the first one that answers is asked
    cluster       its name; "": the only one
    connections   to its servers
    """
    found = _told_by_any(nameservers, connections)
    clusters = found.get("clusterAddrTable")
    known: dict[str, object] = clusters if isinstance(clusters, dict) else {}
    if not cluster:
        if len(known) != 1:
            every = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"the name server knows these clusters: {every}; name one with --cluster")
        cluster = next(iter(known))
    names = known.get(cluster)
    if not isinstance(names, list):
        raise ConfigError(f"the name server knows no cluster {cluster!r}, but {', '.join(sorted(known)) or 'none'}")
    addresses = objects(found.get("brokerAddrTable"))
    brokers: list[SourceBroker] = []
    for name in sorted(map(str, names)):
        of_ids = addresses.get(name, {}).get("brokerAddrs")
        master = of_ids.get("0") if isinstance(of_ids, dict) else None
        if not isinstance(master, str):
            raise ConfigError(f"broker {name} has no master now: start it, then import again")
        brokers.append(_read_broker(name, Server(master, f"broker {name}", connections)))
    return cluster, brokers


def _told_by_any(nameservers: Sequence[str], connections: ServerConnections) -> dict[str, object]:
    failed: ConfigError | None = None
    for address in nameservers:
        try:
            return Server(address, "name server", connections).table(codes.GET_CLUSTER)
        except ConfigError as error:
            failed = error
    raise failed or ConfigError("no name server is given")


def _read_broker(name: str, server: Server) -> SourceBroker:
    topics = server.all_of(codes.GET_ALL_TOPICS, "Topic", "topicConfigTable")
    groups = server.all_of(codes.GET_ALL_GROUPS, "Group", "subscriptionGroupTable")
    offsets: dict[tuple[str, str], dict[int, int]] = {}
    for at, queues in objects(server.table(codes.GET_ALL_OFFSETS).get("offsetTable")).items():
        topic, _, group = at.partition("@")
        offsets[topic, group] = {int(queue): offset for queue, offset in queues.items() if isinstance(offset, int)}
    listed = [server.ask(code) for code in (codes.LIST_USER, codes.LIST_ACL)]
    refused = next((frame for frame in listed if frame.code != 0), None)
    closed = "" if refused is None else f"{server} does not tell its users: {refused.remark or f'code {refused.code}'}"
    users, policies = ([] if closed else _list(frame.body) for frame in listed)
    return SourceBroker(name, server, topics, groups, offsets, users, policies, closed)


def _list(body: bytes) -> list[dict[str, object]]:
    found = json_of(body)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
