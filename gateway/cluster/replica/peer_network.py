"""Means of a replica to make connections to controllers and other replicas."""

from __future__ import annotations

from dataclasses import dataclass

from domain.ports import Clock, Entropy
from gateway.link.link import LinkEvents, RemotingLink, Requested
from gateway.link.request import Sign
from gateway.link.wire import Dialer


@dataclass(frozen=True, slots=True)
class PeerNetwork:
    """The network as one process sees it.

    sign   signs requests; None: they are not signed
    """

    dialer: Dialer
    sign: Sign | None
    clock: Clock
    entropy: Entropy

    def link(self, name: str, endpoint: tuple[str, int], on_request: Requested | None = None) -> RemotingLink:
        """A link to the server at `endpoint`, whose own requests go to `on_request`."""
        return RemotingLink(name, *endpoint, self.dialer, self.clock, self.entropy, self.sign, LinkEvents(on_request))
