"""Counters of one protocol. Plain integers that the pump adds to; nothing here costs more than an addition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.event import Delivered, Event, Pulled, Received, Refused
from domain.session import Deliveries


@final
class Figures:
    """What one protocol has done since the start.

    Counts are of messages, payload-carrying bytes on the socket, connections, and refusals by reason: the reasons of
    `Disconnected`, the codes of `Refused`, and the runtime's own (`unrecognised`, `adapter-fault`, `connections-max`).
    `dropped` is a datagram endpoint's own count of what came to nothing.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "connections_open",
        "connections_opened",
        "disconnects",
        "dropped",
        "messages_in",
        "messages_out",
        "protocol",
        "refusals",
    )

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.messages_out = 0
        self.connections_open = 0
        self.connections_opened = 0
        self.refusals: dict[str, int] = {}
        self.disconnects: dict[str, int] = {}
        self.dropped: Mapping[str, int] = {}

    def answered(self, event: Event) -> None:
        """Count what one event hands to a client, or refuses."""
        if isinstance(event, Deliveries):
            self.messages_out += len(event.items)
        elif isinstance(event, Pulled | Delivered):
            self.messages_out += len(event.records)
        elif isinstance(event, Received):
            self.messages_out += len(event.messages)
        elif isinstance(event, Refused):
            self.refused(event.failure.code.value)

    def refused(self, reason: str) -> None:
        """Count one refused command."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def disconnected(self, reason: str) -> None:
        """Count one ended connection by its reason."""
        self.disconnects[reason] = self.disconnects.get(reason, 0) + 1


@final
class Ledger:
    """The figures of all protocols of a node, made on first use."""

    __slots__ = ("_protocols",)

    def __init__(self) -> None:
        self._protocols: dict[str, Figures] = {}

    def of(self, protocol: str) -> Figures:
        """The figures of `protocol`."""
        figures = self._protocols.get(protocol)
        if figures is None:
            figures = self._protocols[protocol] = Figures(protocol)
        return figures

    def all(self) -> list[Figures]:
        """All figures, by protocol name."""
        return [self._protocols[name] for name in sorted(self._protocols)]
