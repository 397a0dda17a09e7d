"""Changes of a store group: codes 1001, 1002, 1003, 1011 and 1013 (RocketMQ's ReplicasInfoManager, ReplicasManager)."""

from __future__ import annotations

from domain.controller.answer import GroupRefusal
from domain.controller.change import AlterSet, ApplyId, CleanReplicas, ElectLeader, RegisterReplica
from domain.controller.group import UNKNOWN
from domain.controller.request import ChangeGroup, GroupChanged
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.controller import sync_state
from protocols.remoting.controller.refusal import refused
from protocols.remoting.controller.sync_state import APACHE_INCARNATION
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, int64
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame


def alter(_client: Client, frame: Frame) -> Outcome:
    """Request code 1001 -> AlterSet."""
    args = Arguments(frame)
    members, set_epoch = sync_state.read(frame.body)
    leader, epoch = args.number("masterBrokerId"), args.number("masterEpoch")
    return (ChangeGroup(Ticket(frame, _altered), AlterSet(args.text("brokerName"), leader, epoch, set_epoch, members)),)


def _altered(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    answer = event.answer
    if answer.refusal is not None or answer.group is None:
        return refused(ticket, answer.refusal or GroupRefusal.UNKNOWN_GROUP)
    fields = {"newSyncStateSetEpoch": str(answer.group.set_epoch)}
    return ticket.reply(codes.SUCCESS, fields, sync_state.body(answer.group))


def elect(_client: Client, frame: Frame) -> Outcome:
    """Request code 1002 -> ElectLeader: a broker asks for an election, or an operator designates one.

    An id of -1, which means none, makes it the election that a controller asks for itself.
    """
    args = Arguments(frame)
    named = max(0, args.number("brokerId", -1))
    designated = named if args.flag("designateElect") else 0
    change = ElectLeader(args.text("brokerName"), asker=0 if designated else named, designated=designated)
    return (ChangeGroup(Ticket(frame, _elected), change),)


def _elected(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    refusal, group = event.answer.refusal, event.answer.group
    if group is None or refusal not in (None, GroupRefusal.LEADER_VALID):
        return refused(ticket, refusal or GroupRefusal.NOT_REGISTERED)
    members = {
        "brokerAddrs": {each.id: each.address for each in group.replicas},
        "brokerName": group.name,
        "cluster": group.cluster,
    }
    body = fastjson.dumps({**members, "brokerMemberGroup": members, "syncStateSet": list(group.in_sync)})
    fields = sync_state.leader_fields(group)
    if refusal is None:
        return ticket.reply(codes.SUCCESS, fields, body)
    return ticket.reply(codes.CONTROLLER_MASTER_STILL_EXIST, fields, body, refusal.value)


def register(_client: Client, frame: Frame) -> Outcome:
    """Request code 1003 -> RegisterReplica: a broker has started."""
    args = Arguments(frame)
    change = RegisterReplica(
        args.text("brokerName"),
        args.text("clusterName"),
        args.number("brokerId"),
        args.text("brokerAddress"),
        args.text("incarnation", APACHE_INCARNATION),
        args.flag("learner"),
        max(UNKNOWN, args.number("epoch", UNKNOWN)),
        max(UNKNOWN, args.number("maxOffset", UNKNOWN)),
        args.text("continues", ""),
    )
    return (ChangeGroup(Ticket(frame, _registered), change),)


def _registered(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    group = event.answer.group
    if event.answer.refusal is not None or group is None:
        return refused(ticket, event.answer.refusal or GroupRefusal.NOT_REGISTERED)
    fields = {"clusterName": group.cluster, "brokerName": group.name}
    if group.leader in event.alive:
        fields |= sync_state.leader_fields(group)
    return ticket.reply(codes.SUCCESS, fields, sync_state.body(group))


def clean(_client: Client, frame: Frame) -> Outcome:
    """Request code 1011 -> CleanReplicas; ids are `1;2`."""
    args = Arguments(frame)
    try:
        ids = tuple(
            int64("brokerControllerIdsToClean", each) for each in args.text("brokerControllerIdsToClean", "").split(";") if each
        )
    except RequestError as error:
        raise RequestError(codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, error.remark) from error
    change = CleanReplicas(args.text("brokerName"), ids, even_living=args.flag("isCleanLivingBroker"))
    return (ChangeGroup(Ticket(frame, _cleaned), change),)


def _cleaned(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    refusal = event.answer.refusal
    return ticket.reply(codes.SUCCESS) if refusal is None else refused(ticket, refusal)


def apply_id(_client: Client, frame: Frame) -> Outcome:
    """Request code 1013 -> ApplyId; the check code, `host:port;time`, is the broker's proof that the id is its own."""
    args = Arguments(frame)
    proof = args.text("registerCheckCode")
    change = ApplyId(
        args.text("brokerName"), args.text("clusterName"), args.number("appliedBrokerId"), proof, proof.partition(";")[0]
    )
    return (ChangeGroup(Ticket(frame, _applied, (change.cluster, change.group)), change),)


def _applied(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    group = event.answer.group
    if event.answer.refusal is not None or group is None:
        return refused(ticket, event.answer.refusal or GroupRefusal.ID_TAKEN)
    return ticket.reply(codes.SUCCESS, {"clusterName": group.cluster, "brokerName": group.name})
