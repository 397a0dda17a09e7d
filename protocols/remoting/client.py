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
SEATS_MAX: Final = 1_024
"""Consumer groups that one connection may speak for."""


@final
class Facts:
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
class Seat:
    """The client's part in one consumer group, as its last heartbeat said it."""

    client_id: str
    membership: Membership
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


@final
class Client:
    """One connection's client: its peer, and its seats in consumer groups."""

    __slots__ = ("facts", "peer", "seats")

    def __init__(self, facts: Facts, peer: Peer) -> None:
        self.facts = facts
        self.peer = peer
        self.seats: dict[str, Seat] = {}

    def sit(self, client_id: str, membership: Membership, keep: bool) -> None:
        """Take or renew a seat. `keep`: a heartbeat without subscriptions leaves the known ones."""
        known = self.seats.get(membership.group)
        if keep and known is not None and not membership.subscriptions:
            known.client_id = client_id
            return
        if known is None and len(self.seats) >= SEATS_MAX:
            return
        self.seats[membership.group] = Seat(client_id, membership, {each.topic: each for each in membership.subscriptions})

    def stand(self, group: str) -> None:
        """Give up a seat; "" all of them."""
        if group:
            self.seats.pop(group, None)
        else:
            self.seats.clear()

    def member(self, group: str) -> str:
        """The client id when this connection speaks for a clustering member of `group`, else ""."""
        seat = self.seats.get(group)
        return seat.client_id if seat is not None and seat.membership.model == "CLUSTERING" else ""

    def broadcasts(self, group: str) -> bool:
        """Whether the client's heartbeat says that it reads everything of its group's topics."""
        seat = self.seats.get(group)
        return seat is not None and seat.membership.model == "BROADCASTING"

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What the client's heartbeat said of a topic."""
        seat = self.seats.get(group)
        return seat.subscriptions.get(topic) if seat is not None else None
