"""Bytes that each command of a client writes to the log, for the bytes that it receives.

    python -m benchmarks.written          every command
    python -m benchmarks.written MQTT     those whose protocol or name contains "MQTT"

A whole node in this process, on a disk in memory and a virtual clock: the figures are the same on every machine. A command may
write BYTES_EACH, and BYTES_FOR_A_BYTE for each of its bytes. One that may write more is in the table with its reason, and what
it writes counts in the rates of its sender (`gateway/guard/throttle.py`), which is `Charged`. A batch has as many commands as
messages.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from benchmarks.written_cases import CASES, CONTROLLED, OPEN, Case
from gateway.node.settings import Config
from tests.neighbours.node import SharedNode
from tests.neighbours.wires import Wires

BYTES_EACH: Final = 4_096
"""What one command may write, whatever its size."""
BYTES_FOR_A_BYTE: Final = 4
"""What each of its bytes may write besides."""
LATER_S: Final = 1.0
"""Progress of a session is stored after 0.2 s."""
RATE: Final = 1_000_000_000_000
HEAD: Final = "| Command | Commands | Received | Written | Ratio | Charged | |\n|" + "---|" * 7


class Written(NamedTuple):
    """What the commands of a case have cost, in bytes.

    commands   their number
    paid       what was charged for the commands that have prepared them
    """

    case: Case
    commands: int
    received: int
    written: int
    charged: int
    paid: int

    @property
    def allowed(self) -> int:
        """Bytes that they may write."""
        return BYTES_EACH * self.commands + BYTES_FOR_A_BYTE * self.received

    def row(self) -> str:
        """The row of the table."""
        case = self.case
        ratio = self.written / self.received
        mark = "" if self.written <= self.allowed else case.reason or "**above the bound**"
        return (
            f"| {case.protocol}: {case.name} | {self.commands:,} | {self.received:,} | {self.written:,} | {ratio:.1f} "
            f"| {self.charged:,} | {mark} |"
        )


def _config(controlled: bool) -> Config:
    limits = {"address_messages_per_s": RATE, "address_bytes_per_s": RATE}
    return Config(admin="root:secret" if controlled else "", tables={"limits": limits, "coap": {"amplification": 0}})


def measure(cases: Sequence[Case]) -> Iterator[Written]:
    """The costs of cases, in their order, at one node for those of each kind."""
    for kind in (OPEN, CONTROLLED):
        chosen = [case for case in cases if case.kind == kind]
        if chosen:
            with SharedNode(_config(kind == CONTROLLED), measures=False) as node:
                wires = Wires(node)
                yield from (_one(case, wires) for case in chosen)


def _one(case: Case, wires: Wires) -> Written:
    node = wires.node
    throttle = node.parts.throttle
    assert throttle is not None
    steps = case.run(wires)
    before = throttle.written
    next(steps)
    node.idle(LATER_S)
    sent, charged, written = wires.sent, throttle.written, _log_bytes(node)
    commands = next(steps)
    node.idle(LATER_S)
    found = Written(case, commands, wires.sent - sent, _log_bytes(node) - written, throttle.written - charged, charged - before)
    steps.close()
    return found


def _log_bytes(node: SharedNode) -> int:
    return sum(size for name, size in node.disk.writes if name.startswith("log/"))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="", help="a part of the protocol or the name of the commands")
    wanted = parser.parse_args().name.lower()
    print(HEAD)
    for found in measure([case for case in CASES if wanted in f"{case.protocol}: {case.name}".lower()]):
        print(found.row(), flush=True)


if __name__ == "__main__":
    main()
