"""The lag of groups with a position in every topic: memory, the cost of a walk over all, its age, and the longest turn.

    python -m benchmarks.lags 10000 1000 DIR       topics, groups; the positions are all at the end of their topics at first

DIR must not exist; it stays. Compiled modules are used where there are any (`make compile`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.turns import watched_loop
from gateway.runtime.compiled import activate


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lags", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("topics", type=int)
    parser.add_argument("groups", type=int)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    running = activate()  # before the modules of the node are imported
    from benchmarks import many_positions

    loop, selector = watched_loop()
    asyncio.set_event_loop(loop)
    print(f"{options.topics} topics, {options.groups} groups, {running}, load {os.getloadavg()[0]:.1f}", flush=True)
    loop.run_until_complete(many_positions.trial(options.folder, options.topics, options.groups, selector))
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
