"""Prints digests of runs, one a line: `python -m tests.simulation.digests 0 10`. The environment decides what is compiled."""

from __future__ import annotations

import sys
from functools import partial

from gateway.runtime.compiled import activate


def main(first: int, last: int) -> None:
    """Run the seeds from `first` to `last` - 1 of both scenarios."""
    print(f"# {activate()}")
    from tests.simulation import test_devices, test_seeds  # imported once it is decided what runs
    from tests.simulation.world import World

    for seed in range(first, last):
        power = seed % 2 == 1
        print(test_seeds.run(seed, power).ledger.digest())
        print(test_devices.run(World(seed), partial(test_devices.node_fails, power=power))[0].ledger.digest())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
