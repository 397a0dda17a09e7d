"""The name servers of a client, which are asked in order."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.client.answer import TOPIC_NOT_EXIST, AccessError, ClientError, RejectedError, TlsError, checked
from gateway.client.connections import ServerConnections
from protocols.remoting.wire.frame import Frame


class NameServers:
    """Several name servers, separated by `;` or `,` in `given`. Raises ClientError when there is none."""

    def __init__(self, given: str, connections: ServerConnections) -> None:
        self._addresses = [part.strip() for part in given.replace(",", ";").split(";") if part.strip()]
        if not self._addresses:
            raise ClientError("no nameserver given; it is written host:port")
        self._connections = connections

    def ask(self, code: int, fields: Mapping[str, str]) -> Frame:
        """The first reply of a name server that is no error; else one that says TOPIC_NOT_EXIST.

        A name server that was started a moment ago may not know a topic, or be busy, while the others answer.
        Raises OSError, RejectedError, TlsError; of several errors one that is not retried.
        """
        unknown: Frame | None = None
        failed: OSError | RejectedError | TlsError | None = None
        for address in self._addresses:
            try:
                [frame] = self._connections.ask(address, [(code, fields, b"")])
                if frame.code != TOPIC_NOT_EXIST:
                    return checked(frame, f"nameserver {address}", self._connections.key)
                unknown = frame
            except (OSError, RejectedError, TlsError) as error:
                if not isinstance(failed, (AccessError, TlsError)):
                    failed = error
        if failed is not None and unknown is None:
            raise failed
        assert unknown is not None
        return unknown
