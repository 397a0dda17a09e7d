"""What the clients of a run know: who was promised what, and who got what when. The invariants are checked on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lease:
    """One delivery to a group member: until when it was promised to be alone with the message."""

    member: str
    until_ms: int
    settled: bool = False


@dataclass(slots=True)
class Ledger:
    """Promises to producers by message name (its body); deliveries by place (queue/offset), since a send may be repeated."""

    sent: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    leases: dict[str, list[Lease]] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    device: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """One line of the run's trace."""
        self.trace.append(line)

    def digest(self) -> str:
        """Equal for two runs that did the same."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def delivered(self, name: str, member: str, now_ms: int, until_ms: int, leases_survive: bool) -> None:
        """A member got a message; nobody else may hold it, and nobody may have settled it before."""
        if name in self.settled:
            self.faults.append(f"{name} was delivered to {member} at {now_ms} though settled at {self.settled[name]}")
        for lease in self.leases.get(name, ()):
            if leases_survive and lease.until_ms > now_ms:
                self.faults.append(
                    f"{name} was delivered to {member} at {now_ms}, leased to {lease.member} until {lease.until_ms}"
                )
        self.leases.setdefault(name, []).append(Lease(member, until_ms))
