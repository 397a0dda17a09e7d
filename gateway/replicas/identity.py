"""Who a replica is, and where its controllers are, in small files of its data directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.address import endpoint_of, endpoint_text
from domain.errors import StoreError
from domain.ports import Disk, Entropy

NAME: Final = "replica-node"
"""The file: a random text, and the id that the controllers gave it, or 0. By it the controllers know the node again."""
CONTROLLERS: Final = "replica-controllers"
"""The file: the addresses of the controllers as the one that leads told them last, a line each."""


@final
class ReplicaIdentity:
    """The text by which a node proves that an id is its own, and that id.

    id   0: it has none yet
    """

    def __init__(self, disk: Disk, entropy: Entropy) -> None:
        """Read them; a directory that has none gets a text. Raises StoreError for a file that is none, OSError."""
        self._disk = disk
        found = disk.read_all(NAME)
        words = [entropy.token(16).hex(), "0"] if found is None else found.decode("ascii", "replace").split()
        if len(words) != 2 or not words[1].isdigit():
            raise StoreError(f"{NAME} does not hold the identity of a replica", NAME)
        self.node = words[0]
        self.id = int(words[1])
        if found is None:
            self.keep(0)

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
