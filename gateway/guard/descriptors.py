"""The file descriptors of a process: those that it keeps for itself, and how many connections there is room for beside them.

limit of open files = what the process opens itself + connections of clients + those of its controller, replica, name server
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

NO_LIMIT: Final = 1 << 31
CLIENTS: Final = ""
"""The clients of the process itself, beside the names of its parts (`gateway.node.roles.role_names.parts_of`)."""
PROCESS: Final = 96
"""Listening sockets, the loop, threads, libraries, files that are read for a moment, and those that are held for the store
(`gateway.runtime.spare_descriptors`)."""
ADMIN: Final = 128
"""Connections of the admin port (`gateway.runtime.admin.port.CONNECTIONS_MAX`); a 32nd of the limit at most."""
STORE: Final = 256
"""Files of a store: 64 of the log and 64 of the index (`store.log.segment.OPEN_FILES_MAX`), runs of the key index, checkpoints,
the promise mark, and what backups and repairs read."""
SMALL_STORE: Final = 32
"""The same of a store of users only, and of a name server's keys."""
LINKS: Final = 32
"""Connections to controllers, name servers, other replicas, and to the store of a gateway."""
SINKS_SHARE: Final = 16
"""Divisor: a 16th of the limit is for connections to the sinks of webhooks, at most."""
PART_SHARES: Final = {"controller": 8, "replica": 8, "nameserver": 4}
"""Divisors: a part gets this fraction of the connections for itself, also when clients use up all of theirs."""


def sinks_max(setting: int, limit: int) -> int:
    """Connections to sinks that a process with this limit of open files makes at most; `setting`: webhook.connections_max."""
    return max(min(setting, limit // SINKS_SHARE), 1)


def rooms(limit: int, parts: Sequence[str], has_store: bool, sinks: int, uplinks: bool) -> Mapping[str, int]:
    """CLIENTS and each part -> connections for which there are file descriptors. At least a fifth of the limit is for them.

    limit       open files that the process may have
    has_store   True: it has a store for messages
    sinks       connections to sinks that it makes at most
    uplinks     True: a client of its may have a connection to a broker for itself
    """
    own = PROCESS + ADMIN + LINKS + sinks + SMALL_STORE * (len(parts) + 1) + STORE * has_store
    room = max(limit - min(own, limit * 4 // 5), 1)
    if uplinks:
        room //= 2
    found = {part: max(room // PART_SHARES[part], 1) for part in parts}
    return {CLIENTS: max(room - sum(found.values()), 1), **found}


def lowered(setting: int, room: Mapping[str, int], limit: int) -> str:
    """What to say when there are too few file descriptors for `setting` connections; "" when there are enough."""
    few = {part: most for part, most in room.items() if most < setting}
    if not few:
        return ""
    taken = ", ".join(f"{most:,} of clients" if part == CLIENTS else f"{most:,} of the {part}" for part, most in few.items())
    return (
        f"connections_max is {setting}, and so many are taken at most: {taken}. The process may open {limit:,} files, some of "
        "which are for itself: raise the limit (LimitNOFILE of the unit, `ulimit -Hn`), or lower connections_max"
    )
