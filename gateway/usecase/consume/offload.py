"""Readers that are far behind the end of the log read from followers: the memory and disk of the leader serve the others."""

from __future__ import annotations

from typing import final

from domain.admin.replica import ReplicaView
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from gateway.connection.client_connection import ClientConnection


@final
class Offload:
    """The choice of the replica that a reader should ask next.

    sent   number of times that a reader was sent to a replica
    """

    __slots__ = ("_behind_bytes", "_replica", "sent")

    def __init__(self, replica: ReplicaView, behind_bytes: int) -> None:
        """A reader that reads more than `behind_bytes` before the end of the log is sent to a replica that has it."""
        self.sent = 0
        self._replica = replica
        self._behind_bytes = behind_bytes

    def reader(self, connection: ClientConnection, result: ReadResult) -> int:
        """Number of the replica that the reader of `result` should ask next; 0: the leader.

        Clients of gateways reach no replicas. Where a group has receivers, members lease their messages, at the leader.
        """
        if not result.records or result.pop_ms or connection.forwarded:
            return 0
        reader = self._replica.reader_for(Record(result.records[-1]).physical_offset, self._behind_bytes)
        self.sent += reader > 0
        return reader
