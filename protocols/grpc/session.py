"""Clients by id: what each said of itself on its Telemetry stream, and the leases that are renewed on its behalf.

A client may use several connections; so this is the adapter's, not a connection's.
"""

from __future__ import annotations

from typing import Final, final

from domain import limits
from domain.command import Heartbeat, Membership, Subscription
from domain.filter.expression import SQL92, TAG, Expressions
from domain.receipt import Receipt
from protocols.grpc.messages import messaging_pb2 as pb

CLIENTS_MAX: Final = 100_000
RENEWED_MAX: Final = 10_000
SILENCE_NS: Final = 120 * limits.SECOND_NS
SWEEP_NS: Final = 60 * limits.SECOND_NS


@final
class Lease:
    """A message under renewal. Its client keeps naming it by the first handle; `receipt` is the one in force.

    ends_ns, since_ns   monotonic: when the lease ends, and when it was first given
    over                True: settled, given back or given up; not to be renewed
    """

    __slots__ = ("client", "ends_ns", "group", "handle", "over", "receipt", "since_ns", "topic")

    def __init__(self, client: Client, handle: str, receipt: Receipt, group: str, topic: str, now: int, ends_ns: int) -> None:
        self.client = client
        self.handle = handle
        self.receipt = receipt
        self.group = group
        self.topic = topic
        self.since_ns = now
        self.ends_ns = ends_ns
        self.over = False


@final
class Client:
    """One client: its kind (`ClientType`), its group ("" for producers), and its topics."""

    __slots__ = ("client_id", "fifo", "group", "kind", "leases", "request_timeout_ns", "seen_ns", "subscriptions", "topics")

    def __init__(self, client_id: str, settings: pb.Settings, now: int) -> None:
        self.client_id = client_id
        self.kind: int = settings.client_type
        self.group: str = settings.subscription.group.name
        self.topics: list[str] = [topic.name for topic in settings.publishing.topics]
        self.subscriptions = [
            Subscription(
                entry.topic.name, entry.expression.expression or "*", SQL92 if entry.expression.type == pb.SQL else TAG
            )
            for entry in settings.subscription.subscriptions
        ]
        self.request_timeout_ns = settings.request_timeout.seconds * limits.SECOND_NS + settings.request_timeout.nanos
        self.fifo = False
        self.seen_ns = now
        self.leases: dict[str, Lease] = {}

    def heartbeat(self, ticket: object, language: str, wait: bool) -> Heartbeat:
        """The client lives, in the domain's words. A producer's group is its topic, as RocketMQ's proxy has it."""
        if not self.group:
            return Heartbeat(ticket, self.client_id, producers=self.topics, language=language, wait=wait)
        kind = "CONSUME_PASSIVELY" if self.kind == pb.PUSH_CONSUMER else "CONSUME_ACTIVELY"
        member = Membership(self.group, consume_type=kind, subscriptions=list(self.subscriptions))
        return Heartbeat(ticket, self.client_id, consumers=[member], language=language, wait=wait)

    def hold(self, lease: Lease, now: int) -> bool:
        """Keep `lease` findable by its handle. False: too many are kept already."""
        if len(self.leases) >= RENEWED_MAX:
            for handle in [handle for handle, known in self.leases.items() if known.ends_ns < now]:
                del self.leases[handle]
            if len(self.leases) >= RENEWED_MAX:
                return False
        self.leases[lease.handle] = lease
        return True

    def release(self, handle: str) -> Receipt | None:
        """End the renewal of `handle` -> its receipt in force, None when it was not under renewal."""
        lease = self.leases.pop(handle, None)
        if lease is None:
            return None
        lease.over = True
        return lease.receipt


@final
class Sessions:
    """All clients of the adapter, and their filters. Silent clients are forgotten after 120 s, as RocketMQ's proxy does."""

    __slots__ = ("_clients", "_sweep_at", "filters")

    def __init__(self) -> None:
        self.filters = Expressions()
        self._clients: dict[str, Client] = {}
        self._sweep_at = 0

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, client_id: str) -> Client | None:
        """A client that has sent its settings."""
        return self._clients.get(client_id)

    def put(self, client: Client, now: int) -> bool:
        """Add or replace; leases under renewal go over to the new settings. False: there are too many clients."""
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_NS
            for client_id in [known.client_id for known in self._clients.values() if now - known.seen_ns > SILENCE_NS]:
                del self._clients[client_id]
        known = self._clients.get(client.client_id)
        if known is not None:
            client.leases = known.leases
            for lease in client.leases.values():
                lease.client = client
        elif len(self._clients) >= CLIENTS_MAX:
            return False
        self._clients[client.client_id] = client
        return True

    def drop(self, client_id: str) -> Client | None:
        """Forget a client -> what was known of it."""
        return self._clients.pop(client_id, None)
