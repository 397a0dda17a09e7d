"""Clients by id: what each said of itself on its Telemetry stream, and the leases that are renewed on its behalf.

A client may use several connections; so this is the adapter's, not a connection's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol, final

from domain import limits
from domain.delivery.retry import DEFAULT
from domain.event import Leased
from domain.filter.expression import SQL92, TAG, Expressions
from domain.membership import Heartbeat, Membership, Subscription
from domain.receipt import Receipt
from protocols.grpc.messages import messaging_pb2 as pb

CLIENTS_MAX: Final = 100_000
RENEWED_LEASES_MAX: Final = 10_000
SILENCE_MAX_NS: Final = 120 * limits.SECOND_NS
SWEEP_NS: Final = 60 * limits.SECOND_NS

LANGUAGES: Final[Mapping[str, str]] = {
    **{name: name for name in ("JAVA", "CPP", "DOTNET", "PYTHON", "RUBY", "PHP", "RUST", "NODE_JS")},
    "GOLANG": "GO",
}
"""Metadata x-mq-language -> RocketMQ's LanguageCode. What tools have no name for is OTHER."""
_PUSHED: Final = (pb.PUSH_CONSUMER, pb.LITE_PUSH_CONSUMER)
V5_0_0: Final = 413
HIGHER_VERSION: Final = 0x7FFF
_NUMBERS = re.compile(r"[vV]?5\.(\d)\.(\d)(?!\d)")


def ordinal(version: str) -> int:
    """`5.2.0` -> its ordinal in RocketMQ's MQVersion, which has two names a release and ten releases a minor version.

    Versions that are not in it are higher than all that are, which is how tools show them.
    """
    found = _NUMBERS.match(version)
    return V5_0_0 + 2 * (int(found[1]) * 10 + int(found[2])) if found is not None else HIGHER_VERSION


class CallMetadata(Protocol):
    """What a call tells of who makes it."""

    client_id: str
    language: str
    version: str

    def named(self, resource: pb.Resource) -> str:
        """The stored name of a topic or group."""


@final
class RenewedLease:
    """A message under renewal. Its client keeps naming it by the first handle; `receipt` is the one in force.

    ends_ns, since_ns   monotonic: when the lease ends, and when it was first given
    ended                True: settled, given back or given up; not to be renewed
    attempt             which delivery of its message it is, from 1
    """

    __slots__ = ("attempt", "client", "ended", "ends_ns", "group", "handle", "receipt", "since_ns", "topic")

    def __init__(self, client: Client, handle: str, leased: Leased, group: str, topic: str, now: int, ends_ns: int) -> None:
        self.attempt = leased.attempt
        self.client = client
        self.handle = handle
        self.receipt = leased.receipt
        self.group = group
        self.topic = topic
        self.since_ns = now
        self.ends_ns = ends_ns
        self.ended = False


@final
class Client:
    """One client: its kind (`ClientType`), its group ("" for producers), and its topics, by their stored names.

    language, version, address   as tools show them: RocketMQ's name, MQVersion ordinal, "host:port" of its Telemetry stream
    since_ms                     wall clock of its first settings
    """

    __slots__ = (
        "_resources", "address", "client_id", "fifo", "group", "kind", "language", "leases", "request_timeout_ns", "retry",
        "seen_ns", "since_ms", "subscriptions", "topics", "version",
    )  # fmt: skip

    def __init__(self, call: CallMetadata, settings: pb.Settings, now: int, wall_ms: int = 0, address: str = "") -> None:
        self.client_id = call.client_id
        self.kind: int = settings.client_type
        self.language = LANGUAGES.get(call.language, "OTHER")
        self.version = ordinal(call.version)
        self.address = address
        self.since_ms = wall_ms
        self.group: str = call.named(settings.subscription.group)
        self._resources = {call.named(topic): topic for topic in settings.publishing.topics}
        self._resources.update((call.named(entry.topic), entry.topic) for entry in settings.subscription.subscriptions)
        self.topics: list[str] = [call.named(topic) for topic in settings.publishing.topics]
        self.subscriptions = [
            Subscription(
                call.named(entry.topic), entry.expression.expression or "*", SQL92 if entry.expression.type == pb.SQL else TAG
            )
            for entry in settings.subscription.subscriptions
        ]
        self.request_timeout_ns = settings.request_timeout.seconds * limits.SECOND_NS + settings.request_timeout.nanos
        self.fifo = False
        self.retry = DEFAULT
        self.seen_ns = now
        self.leases: dict[str, RenewedLease] = {}

    @property
    def consume_type(self) -> str:
        """RocketMQ's ConsumeType."""
        return "CONSUME_PASSIVELY" if self.kind in _PUSHED else "CONSUME_ACTIVELY"

    def resource(self, topic: str) -> pb.Resource:
        """A stored topic as the client names it."""
        return self._resources.get(topic) or pb.Resource(name=topic)

    def heartbeat(self, ticket: object, wait: bool) -> Heartbeat:
        """The client lives, in the domain's words. A producer's group is its topic, as RocketMQ's proxy has it."""
        producers = [] if self.group else self.topics
        consumers = []
        if self.group:
            consumers.append(Membership(self.group, consume_type=self.consume_type, subscriptions=list(self.subscriptions)))
        return Heartbeat(
            ticket, self.client_id, producers, consumers, self.language, self.version, wait=wait, address=self.address
        )

    def add_lease(self, lease: RenewedLease, now: int) -> bool:
        """Keep `lease` findable by its handle. False: too many are kept already."""
        if len(self.leases) >= RENEWED_LEASES_MAX:
            for handle in [handle for handle, known in self.leases.items() if known.ends_ns < now]:
                del self.leases[handle]
            if len(self.leases) >= RENEWED_LEASES_MAX:
                return False
        self.leases[lease.handle] = lease
        return True

    def remove_lease(self, handle: str) -> Receipt | None:
        """End the renewal of `handle` -> its receipt in force, None when it was not under renewal."""
        lease = self.leases.pop(handle, None)
        if lease is None:
            return None
        lease.ended = True
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
        """Add or replace; leases under renewal go ended to the new settings. False: there are too many clients."""
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_NS
            for client_id in [known.client_id for known in self._clients.values() if now - known.seen_ns > SILENCE_MAX_NS]:
                del self._clients[client_id]
        known = self._clients.get(client.client_id)
        if known is not None:
            client.leases = known.leases
            client.since_ms = known.since_ms
            for lease in client.leases.values():
                lease.client = client
        elif len(self._clients) >= CLIENTS_MAX:
            return False
        self._clients[client.client_id] = client
        return True

    def drop(self, client_id: str) -> Client | None:
        """Forget a client -> what was known of it."""
        return self._clients.pop(client_id, None)
