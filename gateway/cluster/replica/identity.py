"""Who a replica is, and where its controllers are, in small files of its data directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.address import endpoint_of, endpoint_text
from domain.controller.group import REPLICAS_MAX
from domain.errors import StoreError
from domain.ports import Disk, Entropy

NAME: Final = "replica-node"
"""The file: a random text, and the id that the controllers gave it, or 0. By it the controllers know the node again."""
RUNS: Final = "replica-runs"
"""The file: a random text for each process that has begun here since one has registered, and for that one; a line each, the
newest last. By it the controllers tell the directory from a copy of it."""
RUNS_MAX: Final = REPLICAS_MAX
CONTROLLERS: Final = "replica-controllers"
"""The file: the addresses of the controllers as the one that leads told them last, a line each."""


@final
class ReplicaIdentity:
    """The text by which a node proves that an id is its own, that id, and the process that runs.

    id            0: it has none yet
    run           random text of this process; after RUNS_MAX processes that nobody has answered, that of the last one
    runs_before   runs in this directory before it, of which one may have registered last
    """

    def __init__(self, disk: Disk, entropy: Entropy, run: str = "") -> None:
        """Read them; a directory that has none gets a text. `run`: of this process, "": by lot. Raises StoreError for a file
        that is none, OSError."""
        self._disk = disk
        found = disk.read_all(NAME)
        words = [entropy.token(16).hex(), "0"] if found is None else found.decode("ascii", "replace").split()
        if len(words) != 2 or not words[1].isdigit():
            raise StoreError(f"{NAME} does not hold the identity of a replica", NAME)
        self.node = words[0]
        self.id = int(words[1])
        if found is None:
            self.keep(0)
        noted = (disk.read_all(RUNS) or b"").decode("ascii", "replace").split()
        # Each run that was not answered may have registered: none may be forgotten, so the last of very many is gone on with.
        self.run = noted[-1] if len(noted) >= RUNS_MAX else run or entropy.token(8).hex()
        self.runs_before = tuple(each for each in noted if each != self.run)
        self._is_noted = self.run in noted

    def note_run(self) -> None:
        """Note durably that this process has begun, before it registers. Raises OSError."""
        if not self._is_noted:
            self._write(*self.runs_before, self.run)
            self._is_noted = True

    def note_registered(self) -> None:
        """This process has registered: those before it have not done so last. Raises OSError."""
        if self.runs_before:
            self._write(self.run)
            self.runs_before = ()

    def _write(self, *runs: str) -> None:
        self._disk.replace(RUNS, "".join(f"{each}\n" for each in runs).encode())

    def keep(self, own: int) -> None:
        """Write the id, durably. Raises OSError."""
        self._disk.replace(NAME, f"{self.node} {own}\n".encode())
        self.id = own


@final
class KnownControllers:
    """Where the controllers were last, for the next start: those of the settings may all have been replaced by then."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self) -> list[tuple[str, int]]:
        """(host, port) of each; lines that are no addresses are left out. Raises OSError."""
        found = (self._disk.read_all(CONTROLLERS) or b"").decode("ascii", "replace").split()
        return [endpoint for each in found if (endpoint := endpoint_of(each)) is not None]

    def keep(self, controllers: Sequence[tuple[str, int]]) -> None:
        """Write them, unless they are there. Raises OSError."""
        if self.read() != list(controllers):
            self._disk.replace(CONTROLLERS, "".join(f"{endpoint_text(*each)}\n" for each in controllers).encode())
