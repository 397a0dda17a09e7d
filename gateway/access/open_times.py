"""Users that were made or changed while access was not controlled, by nobody knows whom: the next controlled start names them.

State space `access-open`: a key for the name of each such user, and one of a zero byte once access has been controlled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from domain.access.access import CLUSTER, UPDATE, User
from domain.store.store_ports import State, StateChange
from gateway.access.policy import Entries

SPACE: Final = "access-open"
_CONTROLLED: Final = b"\x00"
_MARK: Final = b"1"
NAMED_MAX: Final = 100
"""Users that the log names one by one."""
log = logging.getLogger("headgate.access")


def mark(user: str) -> StateChange:
    """Goes with each change of a user and of its policies while access is not controlled."""
    return StateChange(SPACE, user.encode(), _MARK)


def name_those(state: State, users: Iterable[User], entries: Callable[[str], Entries], cluster: str) -> list[str]:
    """Access is controlled from this start on: log and return the users that were made, or changed, before. Once for each.

    users     all but the admin of the configuration
    entries   the policies of a user, by its name
    cluster   name of the node's cluster in policies
    """
    marks: dict[bytes, bytes | None] = {}
    state.follow(SPACE, marks.__setitem__)
    first = _CONTROLLED not in marks
    found = [user for user in users if first or marks.get(user.name.encode()) is not None]
    for user in found[:NAMED_MAX]:
        may = _may(user, entries(user.name), cluster)
        log.warning(
            "user %r was made or changed while access was not controlled, by anybody who reached a port%s: "
            "delete it if you do not know it (DELETE /v1/users/%s), or give it another password",
            user.name, may, user.name, extra={"event": "made-while-open", "user": user.name},
        )  # fmt: skip
    if len(found) > NAMED_MAX:
        log.warning("%d more users were made or changed while access was not controlled", len(found) - NAMED_MAX)
    changes = [StateChange(SPACE, key, None) for key, value in marks.items() if key != _CONTROLLED and value is not None]
    if first:
        changes.append(StateChange(SPACE, _CONTROLLED, _MARK))
    if changes:
        state.put(changes, None)
    return [user.name for user in found]


def _may(user: User, entries: Entries, cluster: str) -> str:
    if user.privileged:
        return "; it is a Super user, who may do everything"
    if entries.allow(CLUSTER, cluster, (UPDATE,), ""):
        return "; it may change users and policies, which opens all data"
    return ""
