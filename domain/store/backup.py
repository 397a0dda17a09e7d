"""Backups of a store that is open: what has to be copied, and the hold that keeps it while it is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from domain.errors import Failure


class BackupPlan(NamedTuple):
    """Content of a backup: together these files are a data directory.

    files         (name within the data directory, bytes from its beginning); longer files are copied up to there
    mark          content of the file `promise/0` of the copy, b"" for none
    incarnation   identity of the log, 0 when it has none
    first         position of the first byte of the log
    position      position of the log up to which it is copied; all of it is durable
    """

    files: list[tuple[str, int]]
    mark: bytes
    incarnation: int
    first: int
    position: int


class Backups(Protocol):
    """The port of backups. A hold is a positive number; it ends by itself when it is not renewed for `lease_ms`."""

    @property
    def lease_ms(self) -> int:
        """For how long a hold lasts after its begin and after each `renew`."""

    def begin(self, done: Callable[[tuple[int, BackupPlan] | Failure], None]) -> None:
        """Hold what the store has on its disk; `done` gets the hold, and the plan once it is durable.

        The plan has everything that was written before the call. The store deletes none of its files while the hold lasts.
        OVERLOADED when too many backups are under way, STORE_UNAVAILABLE when the disk does not answer within the lease.
        """

    def renew(self, hold: int) -> bool:
        """Let the hold last for another `lease_ms`; False when it has ended."""

    def end(self, hold: int) -> bool:
        """End the hold; False when it had ended before."""


@runtime_checkable
class BackedUp(Protocol):
    """A store that can be backed up while it is open."""

    backups: Backups
