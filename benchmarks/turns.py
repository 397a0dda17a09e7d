"""Measures the turns of an event loop: the time between two polls of its selector, in which nobody else is served."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import time
from collections.abc import Mapping
from typing import Any


class WatchedSelector(selectors.BaseSelector):
    """The system's selector, which notes when it is asked and when it has answered.

    longest_s       the longest turn since `reset`, in seconds
    longest_cpu_s   the most processor time of a turn since `reset`: neither waits for disks nor other programs count
    undisturbed_s   the same of turns in which the host of a virtual machine took no time: what it takes counts as processor
                    time of the process that it interrupts
    collector_s     the most processor time of a search for cycles since `reset`
    """

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self._answered = time.perf_counter()
        self._answered_cpu = time.thread_time()
        self.longest_s = 0.0
        self.longest_cpu_s = 0.0
        self.undisturbed_s = 0.0
        self.collector_s = 0.0
        self._searching = 0.0
        self._stat = os.open("/proc/stat", os.O_RDONLY)
        self._taken = self._host_took()
        gc.callbacks.append(self._collector)

    def _host_took(self) -> bytes:
        """What the host has taken from all processors so far."""
        return os.pread(self._stat, 256, 0).split(b" ", 10)[9]

    def _collector(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._searching = time.thread_time()
        else:
            self.collector_s = max(self.collector_s, time.thread_time() - self._searching)

    def reset(self) -> float:
        """The longest turn so far, in seconds; the next one is measured from now on."""
        longest, self.longest_s = self.longest_s, 0.0
        self.longest_cpu_s = self.undisturbed_s = self.collector_s = 0.0
        self._answered = time.perf_counter()
        self._answered_cpu = time.thread_time()
        return longest

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """BaseSelector.register."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """BaseSelector.unregister."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """BaseSelector.modify."""
        return self._inner.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """BaseSelector.select; a turn ends here and the next one begins."""
        self.longest_s = max(self.longest_s, time.perf_counter() - self._answered)
        took = time.thread_time() - self._answered_cpu
        self.longest_cpu_s = max(self.longest_cpu_s, took)
        before, self._taken = self._taken, self._host_took()
        if before == self._taken:
            self.undisturbed_s = max(self.undisturbed_s, took)
        try:
            return self._inner.select(timeout)
        finally:
            self._answered = time.perf_counter()
            self._answered_cpu = time.thread_time()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """BaseSelector.get_map."""
        return self._inner.get_map()

    def close(self) -> None:
        """BaseSelector.close."""
        self._inner.close()


def watched_loop() -> tuple[asyncio.AbstractEventLoop, WatchedSelector]:
    """A loop of asyncio, and what measures its turns."""
    selector = WatchedSelector()
    return asyncio.SelectorEventLoop(selector), selector
