"""Who a replica is, in a small file of its data directory: by it the controllers know the node again."""

from __future__ import annotations

from typing import Final, final

from domain.errors import StoreError
from domain.ports import Disk, Entropy

NAME: Final = "replica-node"
"""The file: a random text, and the id that the controllers gave it, or 0."""


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
