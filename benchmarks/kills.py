"""How long a start takes after kill -9 at each moment of a checkpoint, while clients use all queues of a full log.

    python -m benchmarks.kills --queues 1000000 --gigabytes 10 DIR

makes that many topics of one queue with a message each, fills the log, sends a message to each and lets a group consume one
of each at the same time. Checkpoints with snapshots are written meanwhile. At each moment of one, the data directory is kept
as kill -9 would leave it: what was handed to the operating system. Each of these directories is then opened by a new process,
from a copy, so that `--start` can do that again with other sources. DIR must not exist; it stays, and takes 2.6 times the log,
though closed files of the log are hard links.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.turns import watched_loop
from domain.ports import Disk, File
from gateway.runtime.compiled import activate

OPEN_FILES = 3
"""The newest files of the log, which a start may write to."""
NODE = "node"


def keep(folder: Path, copy: Path) -> None:
    """Make `copy` the data directory `folder` as it is now."""
    log = folder / "log"
    closed = {path.name for path in sorted(log.iterdir())[:-OPEN_FILES]}

    def linked(source: str, target: str) -> None:
        if Path(source).parent == log and Path(source).name in closed:
            os.link(source, target)
        else:
            shutil.copyfile(source, target)

    shutil.copytree(folder, copy, copy_function=linked)


class Moments:
    """Keeps the data directory once at each moment that the files of a checkpoint show.

    kept     names of the moments so far, in order
    wanted   False until the moments are wanted
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.kept: list[str] = []
        self.wanted = False

    def at(self, moment: str) -> None:
        """Keep the directory, unless this moment has been kept, or is one of a checkpoint without a snapshot."""
        if self.wanted and moment not in self.kept and (moment.startswith("snapshot") or "snapshot synced" in self.kept):
            self.kept.append(moment)
            keep(self._folder, self._folder.parent / f"{len(self.kept):02d}-{moment.replace(' ', '-')}")


class WatchedFile:
    """A file of a checkpoint, which tells what is done with it. The `File` port.

    _half   bytes after which it is half written; 0: not told
    """

    def __init__(self, file: File, what: str, moments: Moments, half: int) -> None:
        self._file = file
        self._what = what
        self._moments = moments
        self._half = half
        self.read, self.size, self.truncate, self.close = file.read, file.size, file.truncate, file.close

    def append(self, data: bytes) -> None:
        """File.append."""
        self._file.append(data)
        if self._half and self._file.size() >= self._half:
            self._moments.at(f"{self._what} half written")

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """File.sync."""
        self._moments.at(f"{self._what} written but not synced")

        def synced(error: OSError | None) -> None:
            self._moments.at(f"{self._what} synced")
            done(error)

        self._file.sync(synced)


class WatchedDisk:
    """A data directory whose checkpoints are watched. The `Disk` port."""

    def __init__(self, disk: Disk, moments: Moments) -> None:
        self._disk = disk
        self._moments = moments
        self.names, self.size, self.read_all, self.replace = disk.names, disk.size, disk.read_all, disk.replace
        self.rename, self.free_ratio, self.replace_soon = disk.rename, disk.free_ratio, disk.replace_soon
        self.rename_soon = disk.rename_soon

    def open(self, name: str) -> File:
        """Disk.open."""
        what = name.partition("/")[0]
        if what not in ("snapshot", "checkpoint"):
            return self._disk.open(name)
        fresh = self._disk.size(name) < 0
        before = max((self._disk.size(f"{what}/{each}") for each in self._disk.names(what)), default=0)
        file = self._disk.open(name)
        if fresh:
            self._moments.at(f"{what} empty")
        return WatchedFile(file, what, self._moments, before // 2 if what == "snapshot" else 0)

    def remove(self, name: str) -> None:
        """Disk.remove."""
        what = name.partition("/")[0]
        if what in ("snapshot", "checkpoint"):
            self._moments.at(f"before an old {what} is removed")
        self._disk.remove(name)


async def fill(folder: Path, queues: int, gigabytes: float) -> list[str]:
    """Make the directories; returns the moments."""
    from benchmarks.many_queues import Trial

    moments = Moments(folder / NODE)
    _, selector = LOOP
    run = Trial(folder / NODE, queues, selector, lambda disk: WatchedDisk(disk, moments))
    await run.measured("create", run.create(), queues)
    await run.measured("send one message", run.send(), queues)
    await run.measured(f"fill the log to {gigabytes} GB", run.fill(int(gigabytes * 1e9)))
    await run.checkpoint()
    moments.wanted = True
    await run.measured("send another one, and consume one", run.exchange(), queues)
    moments.at("all is consumed")
    return moments.kept


def start(folder: Path, began: float) -> None:
    """Open the directory, and print how long that takes from exec on, imports included."""
    from typing import cast

    from benchmarks.inside import Node, resident
    from store.opening.open_store import OpenStore

    async def opened() -> None:
        node = Node(folder)
        took, cpu = time.time() - began, time.process_time()
        parts = cast(OpenStore, node.parts.store).parts
        size = (parts.segments.end - parts.segments.first) / 1e9
        recovered = parts.recovered
        print(
            f"| {folder.name[3:].replace('-', ' ')} | {len(parts.index.topics):,} | {size:.1f} GB | {recovered.batches:,}"
            f" | {recovered.state_bytes / 1e6:.0f} MB | {took:.1f} s | {cpu:.1f} s | {resident() / 1e6:.0f} MB |",
            flush=True,
        )

    LOOP[0].run_until_complete(opened())
    os._exit(0)


def start_all(folder: Path, rounds: int) -> None:
    """Start each directory that was kept, from a copy."""
    print(f"{RUNNING}, load {os.getloadavg()[0]:.1f}")
    print("| Killed | Topics | Log | Batches read | State read | By the clock | Processor time | Memory |")
    print("|---|---|---|---|---|---|---|---|")
    for _ in range(rounds):
        for kept in sorted(path for path in folder.iterdir() if path.name[:2].isdigit()):
            copy = folder / "opened" / kept.name
            keep(kept, copy)
            subprocess.run([sys.executable, "-m", "benchmarks.kills", str(copy), "--open", str(time.time())], check=True)
            shutil.rmtree(folder / "opened")
    print(f"load {os.getloadavg()[0]:.1f}")


RUNNING = activate()
LOOP = watched_loop()


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queues", type=int, default=1_000_000)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=1, help="starts of each directory")
    parser.add_argument("--start", action="store_true", help="only start the directories that an earlier run has kept")
    parser.add_argument("--open", type=float, default=0, help="only open this directory; the epoch seconds of the exec")
    options = parser.parse_args(arguments)
    asyncio.set_event_loop(LOOP[0])
    if options.open:
        start(options.folder, options.open)
    if not options.start:
        child = os.fork()
        if not child:
            LOOP[0].run_until_complete(fill(options.folder, options.queues, options.gigabytes))
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the directories could not be made")
    start_all(options.folder, options.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
