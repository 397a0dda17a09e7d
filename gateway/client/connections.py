"""The connections of one tool to servers, by address: opened when they are needed, and opened again after an error."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.client.answer import is_refusal
from gateway.client.link import Link, Request
from gateway.client.request import PIPELINED_MAX
from gateway.client.security import KeyPlace, Tls
from protocols.remoting.wire.frame import Frame


class ServerConnections:
    """Connections with the same TLS and access key. Not thread-safe.

    key         where the access key is that signs the requests; None: they are not signed
    _timeout_s  time for the replies to one write of requests, in seconds
    _tls        None: no TLS
    _links      address -> its connection, which an error has closed
    """

    def __init__(self, timeout_s: float, tls: Tls | None, key: KeyPlace | None) -> None:
        self.key = key
        self._timeout_s = timeout_s
        self._tls = tls
        self._links: dict[str, Link] = {}

    def __enter__(self) -> ServerConnections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Later ones are new."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def link(self, address: str) -> Link:
        """The connection to a server. Raises OSError and ClientError, as `Link` does."""
        link = self._links.get(address)
        if link is None or link.closed:
            link = self._links[address] = Link(address, self._timeout_s, self._tls, self.key)
        return link

    def ask(self, address: str, requests: Sequence[Request]) -> list[Frame]:
        """The replies of a server, whatever their codes. Raises OSError and ClientError, as `Link` does.

        Refused requests are sent again, once, when the access key is another one by now.
        """
        link = self.link(address)
        frames = link.ask(requests)
        if self.key is not None and any(is_refusal(frame) for frame in frames) and self.key.read() != link.key:
            link.close()
            frames = self.link(address).ask(requests)
        return frames

    def ask_all(self, address: str, requests: Sequence[Request]) -> list[Frame]:
        """`ask`, for any number of requests: PIPELINED_MAX of them in one write."""
        found: list[Frame] = []
        for at in range(0, len(requests), PIPELINED_MAX):
            found += self.ask(address, requests[at : at + PIPELINED_MAX])
        return found
