"""Who a replica is, in a small file of its data directory: by it the controllers know the node again."""

from __future__ import annotations

from typing import Final

from domain.ports import Disk, Entropy

NAME: Final = "replica-node"
"""The file: a random text in one line."""


def identity_of(disk: Disk, entropy: Entropy) -> str:
    """The text by which a node proves that an id is its own; made when the directory has none. Raises OSError."""
    found = disk.read_all(NAME)
    if found is None:
        found = entropy.token(16).hex().encode() + b"\n"
        disk.replace(NAME, found)
    return found.decode("ascii").strip()
