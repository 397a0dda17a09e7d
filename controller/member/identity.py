"""The identity of one controller's log, and whether its group has been founded: the file `controller/identity`."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from domain.errors import StoreError
from domain.ports import Disk, Entropy

NAME: Final = "controller/identity"
VERSION: Final = 1


class MemberIdentity(NamedTuple):
    """Who a controller is.

    node       identity of its log, 1 to 2**63 - 1, by lot; a directory that begins anew has another one
    founders   identities of the first voters of the group; empty as long as this controller knows of no group
    """

    node: int
    founders: frozenset[int] = frozenset()


def load(disk: Disk, entropy: Entropy) -> MemberIdentity:
    """The identity in the data directory; a new one, which is stored, when there is none.

    Raises StoreError for a file that cannot be read as one: what it promised to others is not known.
    """
    data = disk.read_all(NAME)
    if data is None:
        made = MemberIdentity(int.from_bytes(entropy.token(8), "big") >> 1 | 1)
        store(disk, made)
        return made
    try:
        found = json.loads(data)
        node, founders = found["node"], frozenset(found["founders"])
        if found["version"] != VERSION or not all(type(each) is int and each > 0 for each in (node, *founders)):
            raise ValueError("numbers above 0 are wanted")
    except (ValueError, KeyError, TypeError) as error:
        text = (
            f"{NAME}: is damaged ({error}). Move the folder controller/ away: this controller then comes back as a new member, "
            "and the others take it in place of the one that is gone"
        )
        raise StoreError(text) from error
    return MemberIdentity(node, founders)


def store(disk: Disk, identity: MemberIdentity) -> None:
    """Replace the file, durably. Raises OSError."""
    disk.replace(NAME, json.dumps({"version": VERSION, "node": identity.node, "founders": sorted(identity.founders)}).encode())
