"""The node, the client of one connection, and the consumer groups that this client is a member of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from domain import address
from domain.client.membership import Membership, Subscription
from domain.filter.expression import Expressions
from protocols.adapter import Peer
from protocols.remoting.settings import RemotingSettings
from protocols.setting import Setting

REGION: Final = "DefaultRegion"
MASTER_ID: Final = 0
GROUPS_PER_CONNECTION_MAX: Final = 1_024
"""Consumer groups that the client of one connection can be a member of; memberships beyond are ignored."""


@final
class NodeInfo:
    """The node, as replies describe it. One object for all connections of an adapter.

    authority    checks the credentials of clients; None: access is not controlled
    refused      counts a refusal of this adapter, by protocol and reason
    host         host that clients connect to
    address      host:port of the broker; IPv6 hosts in brackets
    namesrv      host:port of the name server; IPv6 hosts in brackets
    store_host   host and port of the broker as a record has them
    host_hex     `store_host` in upper-case hexadecimal digits: the first part of an offset message id
    wall_ms      the node's wall clock, epoch milliseconds
    is_controller  True: requests are read as those to a controller
    is_replica     True: requests are read as those of followers
    """

    def __init__(self, setting: Setting, config: RemotingSettings) -> None:
        self.authority = setting.authority
        self.refused = setting.refused
        self.cluster = setting.cluster
        self.broker = setting.broker
        self.host = setting.host
        self.port = setting.ports.get("remoting", 0)
        self.address = address.endpoint_text(setting.host, self.port)
        self.namesrv = address.endpoint_text(setting.host, setting.ports.get("nameserver", self.port))
        self.store_host = address.host_bytes(setting.host, self.port)
        self.host_hex = self.store_host.hex().upper().encode()
        self.wall_ms = setting.wall_ms
        self.unread = setting.unread
        self.uploads = setting.uploads
        self.config = config
        self.expressions = Expressions()
        self.is_controller = setting.is_controller
        self.is_replica = setting.is_replica


@dataclass(slots=True)
class GroupMember:
    """The client as a member of one consumer group, from its last heartbeat.

    fingerprint  of the heartbeat that had its subscriptions; 0: that heartbeat had none
    """

    client_id: str
    membership: Membership
    fingerprint: int = 0
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


@final
class Client:
    """The client of one connection.

    listed   (kind, number, name): its last page of topics or groups ended with this name, and the next begins with this number
    """

    def __init__(self, node: NodeInfo, peer: Peer) -> None:
        self.node = node
        self.peer = peer
        self.members: dict[str, GroupMember] = {}
        self.listed = ("", 0, "")

    def join_group(self, client_id: str, membership: Membership, keep: bool, fingerprint: int) -> tuple[Membership, bool]:
        """Store a membership of a heartbeat -> (the membership for which it stands, the client has to send its subscriptions).

        keep         a membership without subscriptions keeps those of the heartbeat before
        fingerprint  of all that the client subscribes to, as that of the heartbeat before or not; 0: it has none
        """
        known = self.members.get(membership.group)
        is_known = known is not None and known.fingerprint == fingerprint != 0
        if keep and known is not None and not membership.subscriptions:
            known.client_id = client_id
            return (known.membership if is_known else membership), not is_known
        if known is None and len(self.members) >= GROUPS_PER_CONNECTION_MAX:
            return membership, True
        subscriptions = {each.topic: each for each in membership.subscriptions}
        self.members[membership.group] = GroupMember(client_id, membership, 0 if keep else fingerprint, subscriptions)
        return membership, not is_known

    def leave_group(self, group: str) -> None:
        """Remove the membership of `group`; "" removes all memberships."""
        if group:
            self.members.pop(group, None)
        else:
            self.members.clear()

    def clustering_client_id(self, group: str) -> str:
        """The client id when the client is a member of `group` with message model CLUSTERING, else ""."""
        member = self.members.get(group)
        return member.client_id if member is not None and member.membership.model == "CLUSTERING" else ""

    def is_broadcasting(self, group: str) -> bool:
        """True when the client is a member of `group` with message model BROADCASTING: it reads all messages of its topics."""
        member = self.members.get(group)
        return member is not None and member.membership.model == "BROADCASTING"

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """The subscription to `topic` in the last heartbeat; None when there is none."""
        member = self.members.get(group)
        return member.subscriptions.get(topic) if member is not None else None
