"""Facts about the node that it passes to the adapters of all protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from domain.access.access import Authority
from domain.access.oscore import OscoreContexts
from domain.ports import Entropy
from domain.subscription.sink import Network
from protocols.adapter import Adapter, ignore_refusal
from protocols.host_shares import REQUESTS_BYTES_MAX, HostShares
from protocols.http2.application import ApplicationFactory


def ignore_grant(url: str, origin: str, rate: int) -> None:
    """Grant nothing: the default of `Setting.grant`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Facts about the node. Every adapter gets one when it is made.

    host          host name or address in the routes and redirects that clients get
    ports         protocol name -> port in use (after --port-offset): nameserver, remoting, grpc, http, mqtt, coap, …
    entropy       source of random bytes and numbers
    wall_ms       returns the node's wall clock, epoch milliseconds
    authority     checks credentials; None: access is not controlled, and commands carry no principal
    refused       counts a refusal by the adapter: called with the protocol and a word of `domain.refusal` or its declaration.
                  Not called for refusals by the gateway or for closed connections: the gateway counts these
    applications  applications on HTTP/2, in the order in which they are offered a request; complete before the first connection
    uploads       bounds the bytes of unfinished requests, of all protocols together
    unread        bounds the bytes of answers that their clients have not read, of all protocols together
    carried       path -> the adapter that a WebSocket carries at that path; complete before the first connection
    grant         notifies a WebHook sender that it may send: called with its callback URL, its origin, and requests a minute
                  (0: no bound)
    kept          protocol -> an object that its adapters share, which the first of them makes
    is_controller  True: the node is a controller of store groups, whose requests are others than a broker's
    is_replica     True: the port is that of a replica, which followers use alone
    sinks          networks that sinks of webhooks may be in besides public ones; None: other processes deliver, and judge them
    contexts      security contexts of OSCORE; None: access is not controlled, and there are none
    """

    cluster: str
    broker: str
    host: str
    ports: Mapping[str, int]
    entropy: Entropy
    wall_ms: Callable[[], int]
    authority: Authority | None = None
    refused: Callable[[str, str], None] = ignore_refusal
    applications: Sequence[ApplicationFactory] = ()
    carried: Mapping[str, Adapter] = field(default_factory=dict)
    uploads: HostShares = field(default_factory=lambda: HostShares(REQUESTS_BYTES_MAX))
    unread: HostShares = field(default_factory=HostShares)
    grant: Callable[[str, str, int], None] = ignore_grant
    kept: dict[str, object] = field(default_factory=dict)
    is_controller: bool = False
    is_replica: bool = False
    sinks: Sequence[Network] | None = ()
    contexts: OscoreContexts | None = None
