"""Runs seeds and prints what they did: `python -m tests.simulation.cluster.seeds FIRST [LAST] [-t]`.

With `-t`, or when a seed fails, its timeline is printed. With `-d` only the digest of each run is printed. With `-c` the
digests are compared with those in `digests.txt`, of all runs there when no seed is given; `-w` writes that file anew.
PYTHONHASHSEED is 0 unless it is set: the order in which some leases are looked at depends on it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from gateway.runtime.compiled import activate
from tests.simulation.kept_digests import COMPARE, REWRITE, again_as_kept, load, settle

MODULE: Final = "tests.simulation.cluster.seeds"
KEPT: Final = Path(__file__).with_name("digests.txt")


def main(words: list[str]) -> int:
    """Run the seeds from FIRST up to LAST, exclusive. Returns how many failed."""
    print(f"# {activate()}")
    from tests.simulation.cluster.scene import Scene  # imported once it is decided what runs

    numbers = [int(each) for each in words if not each.startswith("-")]
    seeds = range(numbers[0], numbers[1] if len(numbers) > 1 else numbers[0] + 1) if numbers else map(int, load(KEPT))
    keeps = COMPARE in words or REWRITE in words
    digests: dict[str, str] = {}
    failed = 0
    for seed in seeds:
        scene = Scene(seed)
        begin_s = time.process_time()
        try:
            with scene.cluster.timeline.with_logs():
                scene.run()
        except Exception as error:
            failed += 1
            print(f"seed {seed} {scene.shape}: {type(error).__name__}: {error}\n{scene.cluster.timeline.text()}", flush=True)
            continue
        finally:
            scene.cluster.made.clear()
        if keeps:
            digests[str(seed)] = scene.digest()
            continue
        if "-d" in words:
            print(scene.digest())
            continue
        if "-t" in words:
            print(scene.cluster.timeline.text())
        cluster = scene.cluster
        print(
            f"seed {seed}: {scene.shape.stores} stores, {cluster.checkers.serving} leaderships, "
            f"{len(cluster.ledger.acknowledged)} messages acknowledged, {sum(scene.weather.counts.values())} faults, "
            f"{sum(each.passed_over for each in cluster.controllers)} passed over, "
            f"{cluster.clock.monotonic_ns() / 1e9:.0f} s virtual, {time.process_time() - begin_s:.2f} s CPU",
            flush=True,
        )
    return failed + (settle(KEPT, digests, words) if keeps else 0)


if __name__ == "__main__":
    again_as_kept(MODULE, sys.argv[1:])
    if "PYTHONHASHSEED" not in os.environ:
        command = [sys.executable, "-m", MODULE, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(bool(main(sys.argv[1:])))
