"""Notifications of a controller to brokers: code 1008 (RocketMQ's NotifyBrokerRoleChangedRequestHeader)."""

from __future__ import annotations

from domain.controller.group import StoreGroup
from protocols.remoting import codes
from protocols.remoting.controller import sync_state
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import FLAG_ONEWAY


def role_changed(group: StoreGroup, opaque: int) -> bytes:
    """The request that names the leader to a replica of a group. It has no reply, and may be lost: brokers ask every 5 s."""
    return encode(
        codes.ROLE_CHANGED, opaque, fields=sync_state.leader_fields(group), body=sync_state.body(group), flag=FLAG_ONEWAY
    )
