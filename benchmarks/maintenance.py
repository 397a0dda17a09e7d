"""Many queues on one node: what each costs, and the longest turn of the loop in each kind of maintenance.

    python -m benchmarks.maintenance --queues 1000000 --gigabytes 10 DIR

makes that many topics of one queue, asks for the route of each, sends a message to each and lets a group consume it; then
writes a checkpoint, deletes old segments, deletes a group and a topic of many queues, scrapes the figures, fills the log, dies
without a clean end, and starts again in a new process. DIR must not exist; it stays. Compiled modules are used where there
are any (`make compile`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from benchmarks.turns import watched_loop
from gateway.runtime.compiled import activate


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queues", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--start", action="store_true", help="only open the directory that an earlier run has left")
    options = parser.parse_args(arguments)
    running = activate()  # before the modules of the node are imported
    from benchmarks import many_queues

    loop, selector = watched_loop()
    asyncio.set_event_loop(loop)
    if options.start:
        loop.run_until_complete(many_queues.start(options.folder, selector))
        os._exit(0)
    print(f"{options.queues} queues, {options.gigabytes} GB, {running}, load {os.getloadavg()[0]:.1f}", flush=True)
    loop.run_until_complete(many_queues.trial(options.folder, options.queues, options.gigabytes, selector))
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    command = [sys.executable, "-m", "benchmarks.maintenance", str(options.folder), "--start"]
    os.close(cast(Any, loop)._csock.fileno())
    if os.fork():  # the parent dies as by kill -9, its lock with it
        os._exit(0)
    subprocess.run(["sleep", "1"], check=True)
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main(sys.argv[1:])
