"""Clients by id: their settings from the Telemetry stream, and their leases under renewal.

A client may use several connections, so the table belongs to the adapter, and not to a connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol, final

from domain import limits
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.delivery.retry import DEFAULT
from domain.event import Leased
from domain.filter.expression import Expressions
from domain.filter.filter import SQL92, TAG
from domain.message.receipt import Receipt
from protocols.grpc.messages import messaging_pb2 as pb

CLIENTS_MAX: Final = 100_000
RENEWED_LEASES_MAX: Final = 10_000
SILENCE_MAX_NS: Final = 120 * limits.SECOND_NS
SWEEP_NS: Final = 60 * limits.SECOND_NS

LANGUAGES: Final[Mapping[str, str]] = {
    **{name: name for name in ("JAVA", "CPP", "DOTNET", "PYTHON", "RUBY", "PHP", "RUST", "NODE_JS")},
    "GOLANG": "GO",
}
"""Metadata x-mq-language -> RocketMQ's LanguageCode. All others are OTHER."""
_PUSHED: Final = (pb.PUSH_CONSUMER, pb.LITE_PUSH_CONSUMER)
V5_0_0: Final = 413
HIGHER_VERSION: Final = 0x7FFF
_NUMBERS = re.compile(r"[vV]?5\.(\d)\.(\d)(?!\d)")


def ordinal(version: str) -> int:
    """`5.2.0` -> its ordinal in RocketMQ's MQVersion, which has two names a release and ten releases a minor version.

    HIGHER_VERSION for versions that MQVersion does not have; tools show it by that name.
    """
    found = _NUMBERS.match(version)
    return V5_0_0 + 2 * (int(found[1]) * 10 + int(found[2])) if found is not None else HIGHER_VERSION


def resource_of(topic: str) -> pb.Resource:
    """A stored topic as a resource."""
    return pb.Resource(name=topic)


class CallMetadata(Protocol):
    """The metadata of a call that settings need."""

    client_id: str
    language: str
    version: str

    def named(self, resource: pb.Resource) -> str:
        """The stored name of a topic or group."""


@final
class RenewedLease:
    """A lease under renewal. The client names it by the first receipt handle throughout.

    handle     the first receipt handle
    receipt    the receipt in force
    topic      topic or lite queue that the message is settled in
    attempt    number of this delivery of the message, from 1
    since_ns   monotonic ns at which the lease was first given
    ends_ns    monotonic ns at which the lease ends
    ended      True: settled, released or refused; not renewed any more
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
    """A client, by its settings. Topics and groups have their stored names.

    kind                 `ClientType`
    group                consumer group; "" for a producer
    fifo                 True: its group is orderly
    language             RocketMQ's LanguageCode, for tools
    version              ordinal in RocketMQ's MQVersion, for tools
    address              "host:port" of its Telemetry stream, for tools
    since_ms             wall clock of its first settings, epoch milliseconds
    seen_ns              monotonic ns of its last settings or heartbeat
    leases               first receipt handle -> lease under renewal
    _resources           stored topic -> the topic as the client named it
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
        """A stored topic as the client named it."""
        return self._resources.get(topic) or resource_of(topic)

    def heartbeat(self, ticket: object, wait: bool) -> Heartbeat:
        """The Heartbeat of its memberships. A producer's groups are its topics, as in RocketMQ's proxy."""
        producers = [] if self.group else self.topics
        consumers = []
        if self.group:
            consumers.append(Membership(self.group, consume_type=self.consume_type, subscriptions=list(self.subscriptions)))
        return Heartbeat(
            ticket, self.client_id, producers, consumers, self.language, self.version, wait=wait, address=self.address
        )

    def add_lease(self, lease: RenewedLease, now: int) -> bool:
        """Store a lease under its handle. False: the client has RENEWED_LEASES_MAX already."""
        if len(self.leases) >= RENEWED_LEASES_MAX:
            for handle in [handle for handle, known in self.leases.items() if known.ends_ns < now]:
                del self.leases[handle]
            if len(self.leases) >= RENEWED_LEASES_MAX:
                return False
        self.leases[lease.handle] = lease
        return True

    def remove_lease(self, handle: str) -> Receipt | None:
        """End the renewal of `handle` -> the receipt in force; None when it was not under renewal."""
        lease = self.leases.pop(handle, None)
        if lease is None:
            return None
        lease.ended = True
        return lease.receipt


@final
class Sessions:
    """All clients of the adapter, and their compiled filters.

    A client without a heartbeat for 120 s is removed, as in RocketMQ's proxy.
    """

    __slots__ = ("_clients", "_sweep_at", "filters")

    def __init__(self) -> None:
        self.filters = Expressions()
        self._clients: dict[str, Client] = {}
        self._sweep_at = 0

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, client_id: str) -> Client | None:
        """The client with this id; None when it has sent no settings."""
        return self._clients.get(client_id)

    def put(self, client: Client, now: int) -> bool:
        """Add or replace a client; its leases under renewal are kept. False: there are CLIENTS_MAX already."""
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
        """Remove a client and return it; None when it is unknown."""
        return self._clients.pop(client_id, None)
