"""What a node tells the protocols that it makes adapters of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from domain.access import Authority
from domain.ports import Entropy
from protocols.adapter import Adapter, unheard
from protocols.http2.application import ApplicationFactory


@dataclass(frozen=True, slots=True)
class Setting:
    """The node's facts, handed to every adapter once.

    host          what routes and redirects carry
    ports         protocol name -> port really in use (after --port-offset): nameserver, remoting, grpc, http, mqtt, coap, …
    wall_ms       the node's wall clock, epoch milliseconds
    authority     who judges credentials; None: access is not controlled, and commands carry no principal
    refused       counts what an adapter refuses itself, by its protocol and a word of `domain.refusal` or of its declaration;
                  what the gateway has refused, and what ends a connection, is counted already
    applications  applications on HTTP/2, in the order in which they are asked; complete when the first connection comes
    carried       path -> the adapter that a WebSocket carries there; complete when the first connection comes
    """

    cluster: str
    broker: str
    host: str
    ports: Mapping[str, int]
    entropy: Entropy
    wall_ms: Callable[[], int]
    authority: Authority | None = None
    refused: Callable[[str, str], None] = unheard
    applications: Sequence[ApplicationFactory] = ()
    carried: Mapping[str, Adapter] = field(default_factory=dict)
