"""How access begins: the book is read, the configuration's Super user is in it, the authority stands if it is wanted."""

from __future__ import annotations

from collections.abc import Callable

from domain.access import User
from domain.errors import ConfigError
from domain.store_ports import State
from gateway.access.authority import Access
from gateway.access.config import AccessConfig, split
from gateway.access.records import AccessRecords


def open_access(
    config: AccessConfig, admin: str, controlled: bool, state: State, wall_ms: Callable[[], int], cluster: str
) -> tuple[AccessRecords, Access | None]:
    """The book, and the authority when access is controlled. `admin`: `NAME:PASSWORD`, "" none. Raises ConfigError.

    `cluster`: what policies call the node's cluster.
    """
    records = AccessRecords(state, config.grants)
    if admin:
        name, password = split(admin)
        user = User(name, password, privileged=True)
        if records.users.get(name) != user:
            # In force at once: what is kept is the same, and nobody has connected yet.
            records.users[name] = user
            records.put_user(user, lambda _: None)
    if not controlled:
        return records, None
    if not records.users and not config.names_somebody:
        raise ConfigError("access is controlled and nobody is known: name a first user by --admin NAME:PASSWORD")
    return records, Access(records, config, wall_ms, cluster)
