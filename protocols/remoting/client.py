"""The node and the client as one connection sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from domain import address
from domain.filter.expression import Expressions
from domain.membership import Membership, Subscription
from protocols.adapter import Peer, Setting
from protocols.remoting.config import RemotingConfig

REGION: Final = "DefaultRegion"
MASTER_ID: Final = 0
GROUPS_PER_CONNECTION_MAX: Final = 1_024
"""Consumer groups that one connection may speak for."""


@final
class NodeInfo:
    """What every reply needs to know of the node, in wire form, made once an adapter."""

    __slots__ = (
        "address", "authority", "broker", "cluster", "config", "expressions", "host", "host_hex", "namesrv", "port",
        "refused", "store_host", "wall_ms",
    )  # fmt: skip

    def __init__(self, setting: Setting, config: RemotingConfig) -> None:
        self.authority = setting.authority
        self.refused = setting.refused
        self.cluster = setting.cluster
        self.broker = setting.broker
        self.host = setting.host
        self.port = setting.ports.get("remoting", 0)
        shown = f"[{setting.host}]" if ":" in setting.host else setting.host
        self.address = f"{shown}:{self.port}"
        self.namesrv = f"{shown}:{setting.ports.get('nameserver', self.port)}"
        self.store_host = address.host_bytes(setting.host, self.port)
        self.host_hex = self.store_host.hex().upper().encode()
        self.wall_ms = setting.wall_ms
        self.config = config
        self.expressions = Expressions()


@dataclass(slots=True)
class GroupMember:
    """The client's part in one consumer group, as its last heartbeat said it."""

    client_id: str
    membership: Membership
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


@final
class Client:
    """One connection's client: its peer, and its members in consumer groups."""

    __slots__ = ("members", "node", "peer")

    def __init__(self, node: NodeInfo, peer: Peer) -> None:
        self.node = node
        self.peer = peer
        self.members: dict[str, GroupMember] = {}

    def join_group(self, client_id: str, membership: Membership, keep: bool) -> None:
        """Take or renew a member. `keep`: a heartbeat without subscriptions leaves the known ones."""
        known = self.members.get(membership.group)
        if keep and known is not None and not membership.subscriptions:
            known.client_id = client_id
            return
        if known is None and len(self.members) >= GROUPS_PER_CONNECTION_MAX:
            return
        self.members[membership.group] = GroupMember(
            client_id, membership, {each.topic: each for each in membership.subscriptions}
        )

    def leave_group(self, group: str) -> None:
        """Give up a member; "" all of them."""
        if group:
            self.members.pop(group, None)
        else:
            self.members.clear()

    def clustering_client_id(self, group: str) -> str:
        """The client id when this connection speaks for a clustering member of `group`, else ""."""
        member = self.members.get(group)
        return member.client_id if member is not None and member.membership.model == "CLUSTERING" else ""

    def is_broadcasting(self, group: str) -> bool:
        """Whether the client's heartbeat says that it reads everything of its group's topics."""
        member = self.members.get(group)
        return member is not None and member.membership.model == "BROADCASTING"

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What the client's heartbeat said of a topic."""
        member = self.members.get(group)
        return member.subscriptions.get(topic) if member is not None else None
