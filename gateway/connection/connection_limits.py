"""The limits of the stream connections that are open at once, and the admission of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.refusal import Ending
from gateway.connection.transport import AdmissionCheck
from protocols.host_shares import HostShare, HostShares

UNAUTHENTICATED_MIN: Final = 8
"""Connections of unauthenticated clients that may be open in any case."""


@final
class ConnectionLimits:
    """The limits of all stream connections of a context.

    connections_max   connections open at once; further ones are closed at once and counted
    admission_check   limits connections by address; None: no limits
    is_proxy          True for addresses of proxies (PROXY protocol): their connections are checked with the client's address;
                      None: there are no proxies
    unauthenticated   shares of hosts in the connections whose clients have not authenticated, half of `connections_max` in all;
                      None: access is not controlled
    """

    __slots__ = ("admission_check", "connections_max", "is_proxy", "unauthenticated")

    def __init__(
        self,
        connections_max: int,
        admission_check: AdmissionCheck | None = None,
        is_proxy: Callable[[str], bool] | None = None,
        controlled: bool = False,
    ) -> None:
        """`controlled`: access is."""
        self.admission_check = admission_check
        self.is_proxy = is_proxy
        self.unauthenticated = HostShares() if controlled else None
        self.limit(connections_max)

    def limit(self, connections_max: int) -> None:
        """Set `connections_max` for new connections. Open ones stay open."""
        self.connections_max = connections_max
        if self.unauthenticated is not None:
            self.unauthenticated.bytes_max = max(connections_max // 2, UNAUTHENTICATED_MIN)


@final
class ConnectionAdmission:
    """The admission of one connection: checked once the address of its client is known.

    unknown   its part of the connections whose clients have not authenticated; None: this one has, or access is not controlled
    """

    __slots__ = ("_host", "_limits", "unknown")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._host = ""
        self.unknown: HostShare | None = None

    def enter(self, host: str, now: int) -> str:
        """Why a connection from `host` is refused; "": it is admitted. Counts an admitted connection only once."""
        limits = self._limits
        if self._host:
            return ""
        is_proxy = limits.is_proxy is not None and limits.is_proxy(host)
        shares = limits.unauthenticated
        if shares is not None:
            # One of a proxy counts among all of them only, until the address of its client is known.
            self.unknown = None
            share = HostShare(shares, host)
            if not (shares.bytes_held < shares.bytes_max if is_proxy else share.take(1)):
                return Ending.UNAUTHENTICATED_CONNECTIONS.value
            share.hold(1)
            self.unknown = share
        if is_proxy or limits.admission_check is None:
            return ""
        reason = limits.admission_check.enter(host, now)
        if reason is not None:
            self.unknown = None
            return str(reason.value)
        self._host = host
        return ""

    def leave(self) -> None:
        """The connection has ended."""
        self.unknown = None
        if self._host and self._limits.admission_check is not None:
            self._limits.admission_check.leave(self._host)
            self._host = ""
