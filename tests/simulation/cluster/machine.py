"""A machine of a cluster: its disk and its clock outlive the processes that run on it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.simulation.kit.clock import HeldTimer, MachineClock, PausableClock
from tests.simulation.kit.disk import Crash, MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

DRIFT_MAX: Final = 100e-6
"""How much faster or slower than true time a clock runs: 100 millionths, twice what a cheap quartz does."""
DRIFT_MS: Final = 30
"""How far a clock drifts in a run, at most."""

RUNNING: Final = [""]
"""Name of the machine whose process runs, or has run last."""


class NamedClock(PausableClock):
    """The clock of one life of a process, which is noted in RUNNING while it runs."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.time)
        self._name = machine.name

    def _call(self, held: HeldTimer) -> None:
        RUNNING[0] = self._name
        super()._call(held)


class Machine:
    """One machine with one process.

    name      for the timeline
    host      its address
    powered   False: nothing of it answers
    running   True while its process exists, paused or not
    boot      how often it has been started
    clock     of the present process, or of the last one
    disk      as the present process sees it, or as the last one has left it
    sync_ms   how long a sync of it takes while nothing is wrong with it
    """

    def __init__(self, cluster: Cluster, name: str, host: str) -> None:
        self.cluster = cluster
        self.name = name
        self.host = host
        self.powered = True
        self.running = False
        self.boot = 0
        chance = cluster.chance
        half_ms = cluster.skew_ms // 2
        self.time = MachineClock(cluster.clock, 1.0 + chance.uniform(-DRIFT_MAX, DRIFT_MAX), chance.randint(-half_ms, half_ms))
        self.clock = NamedClock(self)
        self.clock.alive = False
        self.sync_ms = chance.choice((0.2, 1.0, 4.0))
        self.disk = MemoryDisk(self.clock, self.sync_ms)
        cluster.net.add(self)

    @property
    def chance(self) -> random.Random:
        """The lot of the run."""
        return self.cluster.chance

    @property
    def entropy(self) -> SeededEntropy:
        """The `Entropy` port."""
        return SeededEntropy(self.chance)

    def note(self, what: str) -> None:
        """A line of the timeline."""
        self.cluster.timeline.note(self.name, what)

    def start(self) -> None:
        """Start the process on what the disk has."""
        assert not self.running
        self.powered = self.running = True
        self.clock = NamedClock(self)
        self.disk = self.disk.killed(self.clock)
        try:
            self.began()
        except Crash:
            self.end("the disk ended its process")

    def began(self) -> None:
        """Make the parts of the process."""
        raise NotImplementedError

    def gone(self) -> None:
        """The process is gone: drop its parts."""
        raise NotImplementedError

    def end(self, why: str) -> None:
        """The process ends as by kill -9; connections end with it."""
        if self.running:
            self._stop(True)
            self.note(why)

    def lose_power(self) -> None:
        """The machine loses its power: of what was not synced anything may be gone. Nobody is told."""
        if self.running:
            self._stop(False)
        self.powered = False
        self.boot += 1
        self.disk = self.disk.powered_off(self.clock, chance=self.chance)
        self.note("power lost")

    def _stop(self, said: bool) -> None:
        self.running = False
        self.clock.alive = False
        self.cluster.net.ended(self, said)
        self.gone()

    def pause(self, for_ms: int) -> None:
        """The process stands still, as by SIGSTOP."""
        if self.running and not self.clock.paused:
            clock = self.clock
            clock.paused = True
            self.note(f"paused for {for_ms} ms")
            self.cluster.after(for_ms, lambda: self._resume(clock))

    def _resume(self, clock: PausableClock) -> None:
        if clock.paused:
            clock.resume()
            if clock is self.clock and self.running:
                self.note("goes on")

    def heal(self) -> None:
        """Nothing is wrong with this machine any more."""
        self._resume(self.clock)
        self.disk.mend()
        self.disk.sync_ms = self.sync_ms
        if not self.running:
            self.note("started")
            self.start()
