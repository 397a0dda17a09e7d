"""Requests of Headgate to a controller: codes 30022 to 30024, 30028, 30029 (docs/protocols/remoting-extensions.md)."""

from __future__ import annotations

from domain.controller.controller_list import ControllersChanged
from domain.controller.gateway_search import SAID_CHARS_MAX, GatewaySearch, HearGateway
from domain.controller.group import NUMBER_MAX, TEXT_BYTES_MAX
from domain.controller.request import (
    ChangeGroup,
    ControllerFound,
    GroupChanged,
    ListStoreGroups,
    StoreGroupsListed,
)
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.controller import change_form, group_form
from protocols.remoting.controller.refusal import TABLE, refused
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame


def list_groups(_client: Client, frame: Frame) -> Outcome:
    """Request code 30022 -> ListStoreGroups. An empty body means {}."""
    found = bean.read(frame.body or b"{}")
    ticket, identity = Ticket(frame, _listed), bean.text(found, "groupIdentity")
    if len(identity.encode()) > TEXT_BYTES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"an identity of more than {TEXT_BYTES_MAX} bytes")
    return (ListStoreGroups(ticket, bean.text(found, "after"), bean.texts(found, "names"), identity),)


def _listed(_client: Client, ticket: Ticket, event: StoreGroupsListed) -> bytes:
    if event.refusal is not None:
        return refused(ticket, event.refusal)
    groups = [group_form.write(group, heard) for group, heard in event.groups]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"groups": groups, "more": event.more}))


def change_group(_client: Client, frame: Frame) -> Outcome:
    """Request code 30023 -> ChangeGroup."""
    change = change_form.with_process(change_form.read(bean.read(frame.body)), Arguments(frame))
    return (ChangeGroup(Ticket(frame, _changed), change),)


def _changed(_client: Client, ticket: Ticket, event: GroupChanged) -> bytes:
    """The present state of the group goes with refusals too, so that a refused client learns the leader."""
    refusal, group = event.answer.refusal, event.answer.group
    body = b""
    if group is not None:
        body = fastjson.dumps({"group": group_form.write(group), "alive": sorted(event.alive)})
    if refusal is None:
        return ticket.reply(codes.SUCCESS, body=body)
    return ticket.reply(TABLE[refusal], {"refusal": refusal.name}, body, refusal.value)


def controller(_client: Client, ticket: Ticket, event: ControllerFound) -> bytes:
    """Reply of 30024: the state of this controller in its raft group, and the list of all controllers."""
    found: dict[str, object] = {
        "node": str(event.node),
        "term": event.term,
        "leads": event.leads,
        "leader": str(event.leader),
        "voters": [str(each) for each in event.voters],
        "learners": [str(each) for each in event.learners],
        "places": {str(node): where for node, where in event.places.items()},
        "failure": event.failure,
        "book": list(event.book),
        "changing": event.changing,
    }
    if event.strangers:
        found["strangers"] = [
            {"group": each.group, "where": each.where, "why": each.why, "ageMs": each.age_ms} for each in event.strangers
        ]
    if event.gateways:
        found["gateways"] = [{"group": each.group, "name": each.name, "ageMs": each.age_ms} for each in event.gateways]
    if event.searching:
        found["searching"] = [
            {"name": each.name, "seeks": each.seeks, "why": each.why, "waitsMs": each.waits_ms} for each in event.searching
        ]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(found))


def hear_gateway(_client: Client, frame: Frame) -> Outcome:
    """Request code 30029 -> HearGateway. An empty name is refused; long texts are cut."""
    args = Arguments(frame)
    name, life = args.text("name"), args.text("life")
    if not name or not life or len(life.encode()) > TEXT_BYTES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"a gateway has a name, and a life of {TEXT_BYTES_MAX} bytes at most")
    seeks, why = args.text("seeks", "")[:SAID_CHARS_MAX], args.text("why", "")[:SAID_CHARS_MAX]
    search = GatewaySearch(name[:SAID_CHARS_MAX], seeks, why, max(0, min(args.number("waitsMs", 0), NUMBER_MAX)))
    return (HearGateway(Ticket(frame, lambda _client, ticket, _event: ticket.reply(codes.SUCCESS)), life, search),)


def controllers_changed(_client: Client, ticket: Ticket, event: ControllersChanged) -> bytes:
    """Reply of 30028: SUCCESS, or the refusal and why."""
    if event.refusal is None:
        return ticket.reply(codes.SUCCESS)
    return ticket.reply(TABLE[event.refusal], {"refusal": event.refusal.name}, remark=event.why)
