"""Questions to a controller: codes 1004, 1005, 1006 and 1012 (RocketMQ's GetMetaDataResponseHeader, BrokerReplicasInfo)."""

from __future__ import annotations

from domain.controller.answer import GroupRefusal
from domain.controller.group import FIRST_ID, StoreGroup, StoreReplica
from domain.controller.request import ControllersFound, GroupsFound, QueryGroups
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.controller import sync_state
from protocols.remoting.controller.refusal import refused
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame


def replica_info(_client: Client, frame: Frame) -> Outcome:
    """Request code 1004: the leader of a group and its SyncStateSet."""
    return (QueryGroups(Ticket(frame, _replica_info), [Arguments(frame).text("brokerName")]),)


def _replica_info(_client: Client, ticket: Ticket, event: GroupsFound) -> bytes:
    if event.refusal is not None or not event.groups:
        return refused(ticket, event.refusal or GroupRefusal.UNKNOWN_GROUP)
    group = event.groups[0][0]
    fields = sync_state.leader_fields(group)
    del fields["syncStateSetEpoch"]
    return ticket.reply(codes.SUCCESS, fields, sync_state.body(group))


def next_id(_client: Client, frame: Frame) -> Outcome:
    """Request code 1012: the id that a new broker of a group applies for."""
    args = Arguments(frame)
    cluster, name = args.text("clusterName"), args.text("brokerName")
    return (QueryGroups(Ticket(frame, _next_id, (cluster, name)), [name]),)


def _next_id(_client: Client, ticket: Ticket, event: GroupsFound) -> bytes:
    if event.refusal is not None:
        return refused(ticket, event.refusal)
    cluster, name = ticket.request_data
    found = event.groups[0][0].next_id if event.groups else FIRST_ID
    return ticket.reply(codes.SUCCESS, {"clusterName": cluster, "brokerName": name, "nextBrokerId": str(found)})


def sync_states(_client: Client, frame: Frame) -> Outcome:
    """Request code 1006: all that is known of the groups whose names are in the body, a list."""
    try:
        names = fastjson.loads(frame.body or b"[]")
    except fastjson.DialectError as error:
        raise RequestError(codes.INVALID_PARAMETER, f"the body is not JSON: {error}") from error
    if not isinstance(names, list) or len(names) > bean.ITEMS_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"the body is no list, or has more than {bean.ITEMS_MAX} names")
    return (QueryGroups(Ticket(frame, _sync_states), [each for each in names if isinstance(each, str)]),)


def _sync_states(_client: Client, ticket: Ticket, event: GroupsFound) -> bytes:
    if event.refusal is not None:
        return refused(ticket, event.refusal)
    table = {group.name: _state(group, alive) for group, alive in event.groups}
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"replicasInfoTable": table}))


def _state(group: StoreGroup, alive: frozenset[int]) -> dict[str, object]:
    found: dict[str, object] = {
        "masterEpoch": group.leader_epoch,
        "syncStateSetEpoch": group.set_epoch,
        "inSyncReplicas": [_identity(group, each, alive) for each in group.replicas if group.is_in_sync(each)],
        "notInSyncReplicas": [_identity(group, each, alive) for each in group.replicas if not group.is_in_sync(each)],
    }
    if group.leader:
        found |= {"masterBrokerId": group.leader, "masterAddress": group.address(group.leader)}
    return found


def _identity(group: StoreGroup, replica: StoreReplica, alive: frozenset[int]) -> dict[str, object]:
    return {
        "alive": replica.id in alive,
        "brokerAddress": replica.address,
        "brokerId": replica.id,
        "brokerName": group.name,
    }


def controllers(_client: Client, ticket: Ticket, event: ControllersFound) -> bytes:
    """Reply of 1005: which controller leads. Brokers and tools ask it first, of any of them."""
    fields = {
        "group": event.group,
        "controllerLeaderId": event.leader,
        "controllerLeaderAddress": event.peers.get(event.leader, ""),
        "isLeader": "true" if event.is_leader else "false",
        "peers": "".join(f"{each}:{address};" for each, address in event.peers.items()),
    }
    return ticket.reply(codes.SUCCESS, fields)
