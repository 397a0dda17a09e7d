"""Orderly groups whose members are processes, of which one is killed while it consumes."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence

from tests.patience import until

KEYS = 20
COUNT = 50
PATIENCE_S = 150
BEFORE_THE_KILL = 20
"""Messages that a member has received when it is killed."""


class Members:
    """Processes that print `seen KEY NUMBER NANOSECONDS`, by the machine's monotonic clock."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, int, str, int]] = []
        """(nanoseconds, number of the process, key, number)."""
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []

    def start(self, command: Sequence[str]) -> int:
        """Start a process -> its number."""
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        number = len(self._processes)
        self._processes.append(process)
        thread = threading.Thread(target=self._read, args=(process, number), daemon=True)
        thread.start()
        self._threads.append(thread)
        return number

    def _read(self, process: subprocess.Popen[str], number: int) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            words = line.split()
            if len(words) == 4 and words[0] == "seen":
                with self._lock:
                    self._lines.append((int(words[3]), number, words[1], int(words[2])))

    def seen(self, number: int | None = None) -> list[tuple[int, int, str, int]]:
        """Messages that all processes, or one, have received, in the order of time."""
        with self._lock:
            return sorted(line for line in self._lines if number is None or line[1] == number)

    def wait(self, count: int, number: int | None = None) -> None:
        """Wait until `count` different messages have been received."""

        def different(number: int | None) -> int:
            return len({line[2:] for line in self.seen(number)})

        until(lambda: different(number) >= count, PATIENCE_S, lambda: f"{different(None)} messages")

    def kill(self, number: int) -> None:
        """Kill a process (SIGKILL), and read the rest of its output."""
        self._processes[number].kill()
        self._processes[number].wait()
        self._threads[number].join(10)

    def end(self) -> None:
        """Kill all processes."""
        for number in range(len(self._processes)):
            self.kill(number)


def killed_in_between(command: Sequence[str]) -> tuple[Members, int]:
    """Run three members, two of them in a process that also sends; kill the third -> what they received, its number."""
    members = Members()
    try:
        victim = members.start([*command, "1"])
        members.start([*command, "2", str(KEYS), str(COUNT)])
        members.wait(BEFORE_THE_KILL, victim)
        members.kill(victim)
        members.wait(KEYS * COUNT)
    finally:
        members.end()
    return members, victim


def judge(lines: list[tuple[int, int, str, int]], killed: int, *, handed_over: bool = False) -> int:
    """Check the order of each key over all members -> number of redelivered messages.

    Only messages that the killed member had received may be redelivered. A client may give up a queue while it still consumes
    its last message, and then reports no position for it (ConsumeMessageOrderlyService.processConsumeResult): `handed_over`
    allows the redelivery of a key's last message.
    """
    keys: dict[str, list[tuple[int, int]]] = {}
    for _, process, key, number in lines:
        keys.setdefault(key, []).append((process, number))
    assert len(keys) == KEYS
    again = 0
    for key, seen in keys.items():
        reached = -1
        by_killed: set[int] = set()
        for process, number in seen:
            assert number <= reached + 1, f"{key}: {number} after {reached}"
            if number <= reached:
                again += 1
                last = handed_over and number == reached
                assert last or number in by_killed, f"{key}: {number} came again, and the killed member never had it"
            reached = max(reached, number)
            if process == killed:
                by_killed.add(number)
        assert reached == COUNT - 1, f"{key} ends with {reached}"
    return again
