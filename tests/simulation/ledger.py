"""Records what the node has acknowledged to the clients of a run and delivered to them; the invariants are checked on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from domain.command import Command
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler


@dataclass(slots=True)
class Lease:
    """One delivery to a group member, with the end of its lease."""

    member: str
    until_ms: int
    settled: bool = False


@dataclass(slots=True)
class Ledger:
    """Acknowledged sends by body; deliveries by queue and offset, because a message may be sent twice."""

    sent: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    leases: dict[str, list[Lease]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """Add a line to the run's trace."""
        self.trace.append(line)

    def digest(self) -> str:
        """Digest of the trace: equal for runs with equal traces."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def left(self, member: str) -> None:
        """A group member has gone, and its leases with it."""
        for leases in self.leases.values():
            for lease in leases:
                if lease.member == member:
                    lease.until_ms = 0

    def delivered(self, name: str, member: str, now_ms: int, until_ms: int, leases_survive: bool) -> None:
        """Record a delivery. Fails when another member has a lease of the message, or when the message was settled before."""
        if name in self.settled:
            self.faults.append(f"{name} was delivered to {member} at {now_ms} though settled at {self.settled[name]}")
        for lease in self.leases.get(name, ()):
            if leases_survive and lease.until_ms > now_ms:
                self.faults.append(
                    f"{name} was delivered to {member} at {now_ms}, leased to {lease.member} until {lease.until_ms}"
                )
        self.leases.setdefault(name, []).append(Lease(member, until_ms))


class Traced:
    """Passes commands to a handler and writes them into the run's trace."""

    def __init__(self, clock: Clock, ledger: Ledger, handler: Handler) -> None:
        self._clock = clock
        self._ledger = ledger
        self._handler = handler

    def handle(self, session: ClientConnection, command: Command) -> None:
        self._ledger.note(f"{self._clock.monotonic_ns()} {session.protocol} {type(command).__name__}")
        self._handler.handle(session, command)
