"""The identity of one controller's log, and whether its group has been founded, in the file `identity` of its folder."""

from __future__ import annotations

import itertools
import json
from typing import Final, NamedTuple

from controller.raft.disk_storage import FOLDER as RAFT
from controller.raft.refusal import LaterVersionError
from domain.controller.peer import LEVEL
from domain.errors import StoreError
from domain.ports import Disk, Entropy
from domain.set_aside import ASIDE, free_folder

NAME: Final = "controller/identity"
VERSION: Final = 1


class MemberIdentity(NamedTuple):
    """Identity of a controller.

    node       identity of its log, 1 to 2**63 - 1, random; a new directory has another one
    founders   identities of the first voters of the group; empty while this controller knows no group
    level      level of the log that its version reads (domain/controller/peer.py); it is in no file
    """

    node: int
    founders: frozenset[int] = frozenset()
    level: int = LEVEL


def load(disk: Disk, entropy: Entropy) -> MemberIdentity:
    """Identity in the data directory; a new one, which is stored, if there is none.

    Raises StoreError for a file that is no identity: the promises made under it are unknown; and for one of a later version.
    """
    data = disk.read_all(NAME)
    if data is None:
        made = MemberIdentity(int.from_bytes(entropy.token(8), "big") >> 1 | 1)
        store(disk, made)
        return made
    try:
        found = json.loads(data)
        version = found["version"]
        if type(version) is int and version > VERSION:
            raise StoreError(f"{NAME}: {LaterVersionError(f'it has version {version}').remedy}")
        node, founders = found["node"], frozenset(found["founders"])
        if version != VERSION or not all(type(each) is int and each > 0 for each in (node, *founders)):
            raise ValueError("numbers above 0 are wanted")
    except (ValueError, KeyError, TypeError) as error:
        text = (
            f"{NAME}: is damaged ({error}). While a majority of the other controllers works, headgate cluster "
            "renew-controller DIR lets this one come back as a new member; else see docs/controllers.md"
        )
        raise StoreError(text) from error
    return MemberIdentity(node, founders)


def set_aside(disk: Disk) -> str:
    """Move all files of a controller -> their folder. The next start makes a new identity. Raises OSError."""
    folders = [NAME.partition("/")[0], RAFT]
    aside = free_folder(disk, (f"{ASIDE}/controller-{number}" for number in itertools.count(1)), folders)
    for folder in folders:  # the identity goes first: with it and without its log a controller would vote twice
        for name in disk.names(folder):
            disk.rename(f"{folder}/{name}", f"{aside}/{folder}/{name}")
    return aside


def store(disk: Disk, identity: MemberIdentity) -> None:
    """Replace the file, durably. Raises OSError."""
    disk.replace(NAME, json.dumps({"version": VERSION, "node": identity.node, "founders": sorted(identity.founders)}).encode())
