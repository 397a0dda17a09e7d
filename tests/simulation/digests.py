"""Prints digests of runs, one a line: `python -m tests.simulation.digests 0 10`. The environment decides what is compiled.

With `-c` they are compared with those in `digests.txt`, of all runs there when no seed is given; `-w` writes that file anew.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

from gateway.runtime.compiled import activate
from tests.simulation.kept_digests import COMPARE, REWRITE, again_as_kept, load, settle

KEPT: Final = Path(__file__).with_name("digests.txt")


def main(words: list[str]) -> int:
    """Run the seeds from the first to the last - 1 of both scenarios. Returns how many digests are not as they were kept."""
    print(f"# {activate()}")
    from tests.simulation import test_devices, test_seeds  # imported once it is decided what runs
    from tests.simulation.world import World

    numbers = [int(each) for each in words if not each.startswith("-")]
    found: dict[str, str] = {}
    for seed in range(*numbers) if numbers else dict.fromkeys(int(name.split()[1]) for name in load(KEPT)):
        power = seed % 2 == 1
        found[f"members {seed}"] = test_seeds.run(seed, power).ledger.digest()
        devices = test_devices.run(World(seed), partial(test_devices.node_fails, power=power))
        found[f"devices {seed}"] = devices[0].ledger.digest()
    if COMPARE in words or REWRITE in words:
        return settle(KEPT, found, words)
    print("\n".join(found.values()))
    return 0


if __name__ == "__main__":
    again_as_kept("tests.simulation.digests", sys.argv[1:])
    sys.exit(bool(main(sys.argv[1:])))
