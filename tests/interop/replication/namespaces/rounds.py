"""Rounds of faults over a cluster of real processes in network namespaces: what is lost, and how long clients wait.

    python -m tests.interop.replication.namespaces.rounds                        20 rounds
    python -m tests.interop.replication.namespaces.rounds --rounds 100 --seed 7
    python -m tests.interop.replication.namespaces.rounds --kind "part leader, followers" --kind "kill leader"
    python -m tests.interop.replication.namespaces.rounds --list                 the kinds

Needs root and iproute2. Three stores, three controllers and two gateways; each round is one fault, from when all is well
until all is well again. Kinds are drawn without repetition until all had their turn. Two senders never wait for an answer;
the table says how long they waited for service (figures.py). Exit status 0: every acknowledged message is stored once, each
fault ended in service, and all replicas came back. The logs of all nodes stay in the folder that is printed, unless the
status is 0.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.interop.replication.chaos.history import faults as faults_of
from tests.interop.replication.namespaces.faults import KINDS
from tests.interop.replication.namespaces.figures import Round, table
from tests.interop.replication.namespaces.network import missing
from tests.interop.replication.namespaces.nodes import GATEWAYS, NamespaceCluster
from tests.interop.replication.namespaces.probes import TOPIC, Probes
from tests.patience import until

SERVED_S: Final = 60.0
"""A fault after which nobody serves for so long is ended, and counts with this time."""
WHOLE_S: Final = 180.0
READ_S: Final = 60.0


class Rounds:
    """Faults, one after the other, and what they cost.

    done   the rounds that have been made
    told   what happened, a line each: the timeline
    wrong  what may not be, a sentence each
    """

    def __init__(self, cluster: NamespaceCluster, probes: Probes, seed: int, say: Callable[[str], None]) -> None:
        """`say`: gets each line of the timeline."""
        self.done: list[Round] = []
        self.wrong: list[str] = []
        self._cluster = cluster
        self._probes = probes
        self._chance = random.Random(seed)
        self._say = say
        self._begun = time.monotonic()

    def run(self, count: int, kinds: Sequence[str]) -> None:
        """Make `count` rounds of these kinds."""
        waiting: list[str] = []
        for number in range(count):
            if not waiting:
                waiting = self._chance.sample(kinds, len(kinds))
            self._round(f"{number + 1} of {count}", waiting.pop())

    def judge(self) -> None:
        """The faults have ended, and nothing more is sent: compare what was told with what is stored."""
        begun = time.monotonic()
        while True:
            try:
                stored, bounds = self._cluster.stored(TOPIC)
                break
            except OSError:
                assert time.monotonic() - begun < READ_S
        self.wrong += faults_of(self._probes.sent, stored, bounds)

    def _round(self, which: str, name: str) -> None:
        kind = KINDS[name]
        until(self._cluster.is_whole, WHOLE_S, self._cluster.state)
        happening = kind.begin(self._cluster, self._chance)
        since_s = time.monotonic()
        self._tell(f"round {which}, {name}: {happening.text}")
        healthy = [each for each in GATEWAYS if each not in happening.hit]
        time.sleep(kind.last_s)
        first_s, all_s = self._waits(since_s, healthy)
        ended_s = time.monotonic()
        happening.end()
        self._await_whole(name)
        whole_s = time.monotonic() - ended_s
        made = Round(name, first_s, all_s, self._waits(ended_s, GATEWAYS)[1], whole_s)
        self.done.append(made)
        self._tell(f"  waits: {first_s:.2f} s, {all_s:.2f} s at each gateway, {made.healed_s:.2f} s after its end")

    def _waits(self, since_s: float, gateways: Sequence[str]) -> tuple[float, float]:
        """Longest waits from `since_s` until now, once all of these gateways serve: at any of them, and at each."""
        now_s = time.monotonic()
        while not set(gateways) <= self._probes.served_s(now_s).keys():
            if time.monotonic() - now_s > SERVED_S:  # `since_s` may be long ago, when the replicas came back late
                silent = sorted(set(gateways) - self._probes.served_s(now_s).keys())
                self.wrong.append(f"{', '.join(silent)} do not serve within {SERVED_S:g} s")
                self._tell(f"  {self.wrong[-1]}: {self._cluster.state()}")
                return (SERVED_S if len(silent) == len(gateways) else 0.0), SERVED_S
            time.sleep(0.02)
        each = [self._probes.longest_s(since_s, now_s, [gateway]) for gateway in gateways]
        return self._probes.longest_s(since_s, now_s, gateways), max(each)

    def _await_whole(self, name: str) -> None:
        begun = time.monotonic()
        while not self._cluster.is_whole():
            if time.monotonic() - begun > WHOLE_S:
                raise AssertionError(f"not whole {WHOLE_S:g} s after {name}: {self._cluster.state()}")
            time.sleep(0.1)

    def _tell(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._begun:8.2f} s  {text}")


def run(folder: Path, count: int, seed: int, kinds: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """All of it, with the table. Returns what may not be, a sentence each. `folder`: an empty one, for logs and data."""
    with NamespaceCluster(folder) as cluster:
        possible = [each for each in kinds if "slow disk" not in each or cluster.disks]
        if len(possible) < len(kinds):
            say("LEFT OUT: slow disks, as there is no C compiler (cc)")
        probes = Probes({name: cluster.network.address[name] for name in GATEWAYS})
        rounds = Rounds(cluster, probes, seed, say)
        probes.start()
        try:
            until(lambda: len(probes.served_s(0)) == len(GATEWAYS), SERVED_S, cluster.state)
            rounds.run(count, possible)
        finally:
            probes.stop()
            say(table(rounds.done))
        rounds.judge()
        acknowledged = sum(each.success for each in probes.sent)
        say(f"{acknowledged:,} of {len(probes.sent):,} messages were acknowledged; {len(rounds.wrong)} faults")
        return rounds.wrong


def main() -> int:
    """The program. Returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these kinds; may be given several times")
    parser.add_argument("--list", action="store_true", help="print the kinds")
    given = parser.parse_args()
    if given.list:
        print("\n".join(KINDS))
        return 0
    lack = missing()
    if lack:
        print(f"NOT RUN: {lack}")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="headgate-namespaces-"))
    print(f"seed {given.seed}, folder {folder}", flush=True)
    wrong = run(folder, given.rounds, given.seed, given.kind or list(KINDS), lambda line: print(line, flush=True))
    print("\n".join(wrong[:40]))
    if not wrong:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
