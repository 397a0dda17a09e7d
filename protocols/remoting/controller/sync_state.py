"""The body SyncStateSet, the fields that name a leader, and code 1008 (RocketMQ's SyncStateSet, ElectMasterResponseHeader).

{"syncStateSet":[1,2],"syncStateSetEpoch":3}; of groups with nodes of Headgate also "incarnations":{"1":"…","2":"…"}, of the
members, and "group", the whole group (group_form.py).
"""

from __future__ import annotations

from typing import Final

from domain.controller.group import SetMember, StoreGroup
from protocols.remoting import codes
from protocols.remoting.controller import group_form
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import FLAG_ONEWAY

APACHE_INCARNATION: Final = "apache"
"""The incarnation of every log of Apache's brokers."""


def body(group: StoreGroup) -> bytes:
    """The SyncStateSet of a group."""
    found: dict[str, object] = {"syncStateSet": list(group.in_sync), "syncStateSetEpoch": group.set_epoch}
    named = {str(each.id): each.incarnation for each in group.members if each.incarnation != APACHE_INCARNATION}
    if named:
        found["incarnations"] = named
    if any(each.incarnation not in ("", APACHE_INCARNATION) for each in group.replicas):
        found["group"] = group_form.write(group)
    return fastjson.dumps(found)


def read(data: bytes) -> tuple[tuple[SetMember, ...], int]:
    """(members, epoch) of a body. Raises RequestError."""
    found = bean.read(data)
    named = bean.table(found, "incarnations")
    members = (SetMember(each, bean.text(named, str(each), APACHE_INCARNATION)) for each in bean.numbers(found, "syncStateSet"))
    return tuple(members), bean.number(found, "syncStateSetEpoch")


def leader_fields(group: StoreGroup) -> dict[str, str]:
    """The fields of the leader, without those of a leader when nobody leads."""
    leader = {"masterBrokerId": str(group.leader), "masterAddress": group.address(group.leader)} if group.leader else {}
    return {**leader, "masterEpoch": str(group.leader_epoch), "syncStateSetEpoch": str(group.set_epoch)}


def role_changed(group: StoreGroup, opaque: int) -> bytes:
    """Request code 1008, which names the leader to a replica. It has no reply, and may be lost: brokers ask every 5 s."""
    return encode(codes.ROLE_CHANGED, opaque, fields=leader_fields(group), body=body(group), flag=FLAG_ONEWAY)
