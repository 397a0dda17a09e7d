"""The ports to the world: time, randomness and files. Each has a real and a simulated implementation.

The ports of the store are in domain/store/store_ports.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that will run at a set time."""

    def cancel(self) -> None:
        """Do not run the callback. No effect once it has run."""


class Clock(Protocol):
    """Time, and the event loop's timers."""

    def monotonic_ns(self) -> int:
        """Monotonic nanoseconds; comparable only with itself."""

    def wall_ms(self) -> int:
        """Epoch milliseconds; may jump."""

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` at monotonic `when_ns`, or in the next turn when that is past."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in this turn of the loop, after the callbacks that are ready now."""


class Entropy(Protocol):
    """Randomness."""

    def random(self) -> float:
        """0 <= x < 1."""

    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes."""


class File(Protocol):
    """One append-only file."""

    def append(self, data: bytes) -> None:
        """Hand `data` to the operating system: on return it survives kill -9, not a power failure. Raises OSError."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end."""

    def size(self) -> int:
        """Bytes written so far."""

    def truncate(self, size: int) -> None:
        """Cut the file off after `size` bytes."""

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """fdatasync of all that was appended before this call, off the loop's thread; `done` on the loop's thread."""

    def close(self) -> None:
        """Close the file handle."""


class Disk(Protocol):
    """The data directory. Names are relative, `/` separates folders."""

    def open(self, name: str) -> File:
        """Open for reading and appending; creates the file when absent. The first sync of a new file makes its name durable."""

    def names(self, folder: str) -> list[str]:
        """Names of the files directly in `folder`, sorted; empty when it does not exist."""

    def size(self, name: str) -> int:
        """Bytes of a file, -1 when absent."""

    def read_all(self, name: str) -> bytes | None:
        """The whole content of a small file, None when absent."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a small file atomically and durably: the old or the new content, never a mixture."""

    def replace_soon(self, name: str, data: bytes, done: Callable[[OSError | None], None]) -> None:
        """Like `replace`, without waiting for the disk: `done` gets the error or None in a later turn.

        Calls are carried out in their order. After an error the file has the old or the new content.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically and durably, over `new` if that exists: first its content is synced, then its names.

        Creates the folder of `new`. Blocks until all is durable. Raises OSError, FileNotFoundError without `old`.
        """

    def rename_soon(self, old: str, new: str, done: Callable[[OSError | None], None]) -> None:
        """Rename a file whose content is durable, over `new` if that exists, in the same folder: the name changes at once, and
        `done` gets the error or None in a later turn, when that is durable. A power failure before leaves either name.

        Raises OSError, FileNotFoundError without `old`.
        """

    def remove(self, name: str) -> None:
        """Delete; no effect when absent. A power failure soon after may bring the file back."""

    def free_ratio(self) -> float:
        """Free share of the volume, 0 to 1."""
