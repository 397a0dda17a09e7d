"""Faults in random order from a seed, each of which ends by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from tests.interop.node import Node
from tests.interop.replication.chaos.nodes import COUNT, ChaosGroup
from tests.interop.replication.chaos.proxy import FROM, TO

PAUSE_S: Final = (0.2, 8.0)
SLOW_MS: Final = (50, 600)
Undo = Callable[[], None]


class Faults:
    """One sequence of faults.

    told   what was done, a line each with its second: the timeline of the run
    """

    def __init__(self, group: ChaosGroup, seed: int, damages: bool = False) -> None:
        """`damages`: logs are damaged, too."""
        self._group = group
        self._damages = damages
        self._chance = random.Random(seed)
        self._begun = time.monotonic()
        self._ends: list[tuple[float, str, Undo]] = []
        self.notified: list[str] = []
        self.count = 0

    def run(self, seconds: float) -> None:
        """Do one fault after the other for so long; then end all of them."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._end_due()
            self._one()
            self._wait(self._chance.uniform(0.5, 4.0))
        self._notify("the faults end")
        self._group.heal()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._end_due()
            time.sleep(0.05)

    def _end_due(self) -> None:
        now = time.monotonic()
        due = [each for each in self._ends if each[0] <= now]
        self._ends = [each for each in self._ends if each not in due]
        for _, text, undo in due:
            self._notify(text)
            undo()

    def _notify(self, text: str) -> None:
        self.notified.append(f"{time.monotonic() - self._begun:8.2f} s  {text}")

    def _later(self, seconds: float, text: str, undo: Undo) -> None:
        self._ends.append((time.monotonic() + seconds, text, undo))

    def _one(self) -> None:
        group, chance = self._group, self._chance
        kinds = ["kill", "kill leader", "pause", "pause", "cut follow", "cut control", "delay", "reset"]
        kinds += ["kill gateway"] if chance.random() < 0.5 else []
        kinds += [] if group.disk is None else ["slow disk"]
        kinds += [] if group.volume.missing else ["full disk"]
        kinds += ["damage", "damage", "damage"] if self._damages else []
        kinds += ["kill controller", "pause controller"] if group.apart else []
        kind = chance.choice(kinds)
        self.count += 1
        node = chance.choice(group.nodes)
        if kind == "kill leader":
            node = group.leader() or node
        name = f"replica {group.nodes.index(node) + 1}"
        if kind.endswith("controller"):
            node = chance.choice(group.apart)
            name = f"controller {group.apart.index(node) + 1}"
        if kind == "damage":
            text = group.damage.do(node, chance)
            self._notify(f"{name}: {text}" if text else "there is nothing to damage")
        elif kind.startswith("kill"):
            if kind == "kill gateway":
                node, name = group.gateway, "the gateway"
            self._kill(node, name)
        elif kind.startswith("pause"):
            self._pause(node, name, chance.uniform(*PAUSE_S))
        elif kind == "slow disk" and group.disk is not None:
            delay = chance.randrange(*SLOW_MS)
            self._notify(f"the disk of replica 1 takes {delay} ms longer for a sync")
            group.disk.slow(delay)
            self._later(chance.uniform(1, 8), "the disk of replica 1 is as before", group.disk.well)
        elif kind == "full disk":
            if not group.volume.is_full:
                self._notify("the volume of replica 3 is full")
                group.volume.fill()
                self._later(chance.uniform(1, 6), "the volume of replica 3 has room", group.volume.free)
        else:
            self._network(kind, group.nodes.index(node))

    def _kill(self, node: Node, name: str) -> None:
        if node not in self._group.running:
            return
        self._notify(f"kill -9 of {name}")
        self._group.kill(node)
        self._later(self._chance.uniform(0.1, 4), f"{name} is started", lambda: self._group.revive(node))

    def _pause(self, node: Node, name: str, seconds: float) -> None:
        if node not in self._group.running or node in self._group.paused or node.ended():
            return
        self._notify(f"{name} stands still for {seconds:.1f} s")
        self._group.pause(node)
        self._later(seconds, f"{name} goes on", lambda: self._group.resume(node))

    def _network(self, kind: str, number: int) -> None:
        group, chance = self._group, self._chance
        control = [group.control[number, at] for at in range(COUNT)]
        proxies = {"cut follow": [group.follow[number]], "cut control": control}.get(kind, [group.follow[number], *control])
        which = {"cut follow": "its followers", "cut control": "the controllers"}.get(kind, "all others")
        name = f"replica {number + 1}"
        if kind == "reset":
            self._notify(f"connections between {name} and {which} break")
            for proxy in proxies:
                proxy.reset()
            return
        if kind == "delay":
            delay = chance.uniform(0.02, 0.5)
            self._notify(f"words between {name} and {which} take {delay * 1e3:.0f} ms")
            for proxy in proxies:
                proxy.delay_s = delay
        else:
            ways = chance.choice([{TO}, {FROM}, {TO, FROM}, {TO, FROM}])
            self._notify(f"{name} and {which} are parted, {'both ways' if len(ways) == 2 else 'one way'}")
            for proxy in proxies:
                proxy.blocked = ways

        def healed() -> None:
            for proxy in proxies:
                proxy.heal()

        self._later(chance.uniform(0.5, 8), f"{name} and {which} reach each other", healed)
