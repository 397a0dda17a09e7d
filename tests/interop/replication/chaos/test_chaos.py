"""Everything happens to a store group of real processes: nothing acknowledged is lost, doubled, moved or given again.

Kills, pauses, partitions, a full volume, a slow disk, from a seed, under senders and consumers of several protocols. The sample
takes 15 seconds of faults; with SOAK in the environment (`make soak`) each of SOAK_SEEDS (3) takes SOAK_SECONDS (600), logs are
damaged, too, and under odd seeds the controllers are processes of their own, which are killed and paused like the others.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.interop.replication.chaos.clients import ChaosClients, stored_in
from tests.interop.replication.chaos.faults import Faults
from tests.interop.replication.chaos.history import body_faults, faults, lease_faults
from tests.interop.replication.chaos.nodes import COUNT, HEAL_S, ChaosGroup
from tests.patience import until

pytestmark = pytest.mark.interop
LONG: Final = "SOAK" in os.environ
SECONDS: Final = float(os.environ.get("SOAK_SECONDS", "600")) if LONG else 15.0
FIRST: Final = int(os.environ.get("SOAK_FIRST", "1"))
SEEDS: Final = range(FIRST, FIRST + (int(os.environ.get("SOAK_SEEDS", "3")) if LONG else 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_chaos(seed: int, tmp_path: Path) -> None:
    with ChaosGroup(tmp_path, apart=LONG and seed % 2 == 1) as group:
        for each in group.skipped:
            print(f"\nchaos: LEFT OUT: {each}")
        clients = ChaosClients(group.gateway)
        chaos = Faults(group, seed, LONG)
        try:
            clients.start()
            until(lambda: clients.acknowledged() >= 20 or bool(clients.faults), HEAL_S)
            chaos.run(SECONDS)
            healed_s = _heal(group, clients)
            clients.stop_sending()
            until(lambda: not clients.missing() or bool(clients.faults), HEAL_S, lambda: f"{clients.missing()} are not given")
            clients.stop()
            until(group.logs_equal, HEAL_S, lambda: "the logs are not equal")
            leader = group.leader()
            assert leader is not None
            stored, bounds = stored_in(leader)
            found = [
                *faults(clients.sent, stored, bounds), *lease_faults(clients.all_handouts()),
                *body_faults(clients.sent, clients.given, True),
            ]  # fmt: skip
            assert found == [], "\n".join(found[:20])
            assert [each.fault for each in group.proxies() if each.fault is not None] == []
        finally:
            if LONG or sys.exception() is not None:
                print("\n".join(["", f"timeline of seed {seed}:", *chaos.notified]))
        leases = len(clients.all_handouts())
        print(
            f"\nchaos: seed {seed}: {chaos.count} faults in {SECONDS:.0f} s, {clients.acknowledged():,} acknowledged of "
            f"{len(clients.sent):,} messages, {leases:,} leases; whole again within {healed_s:.1f} s"
        )
        if LONG:
            damage = group.damage
            met = sum(each.text().count("store unreadable") for each in group.nodes)
            print(
                f"chaos: {damage.done} files of logs damaged, {damage.whole} repaired, {damage.gone} of logs that began anew; "
                f"readers met damage in {met} places"
            )
            assert damage.done, "no file was damaged"


def _heal(group: ChaosGroup, clients: ChaosClients) -> float:
    """The faults have ended: seconds until all replicas are in sync, and sends are acknowledged again."""
    begun, before = time.monotonic(), clients.acknowledged()

    def whole() -> bool:
        group.revive_all()
        return len(group.members()) == COUNT and clients.acknowledged() >= before + 20 and group.damage.is_repaired

    def state() -> str:
        return f"members {group.members()}, {group.group()}, damaged: {group.damage.what() or 'nothing'}"

    until(lambda: whole() or bool(clients.faults), HEAL_S, state)
    return time.monotonic() - begun
