"""Set-up of access control: reads users and policies, adds the configured Super user, makes the authority."""

from __future__ import annotations

from collections.abc import Callable

from domain.access.access import User
from domain.errors import ConfigError
from domain.store.store_ports import State
from gateway.access.authority import Access
from gateway.access.open_times import name_those
from gateway.access.records import AccessRecords
from gateway.access.settings import AccessSettings, split


def open_access(
    config: AccessSettings, admin: str, controlled: bool, state: State, wall_ms: Callable[[], int], cluster: str
) -> tuple[AccessRecords, Access | None]:
    """Users and policies, and the authority; None where access is not controlled. Raises ConfigError.

    The first controlled start after a time without control names in the log the users that were made meanwhile.

    table        table `[access]` of the configuration
    admin        `NAME:PASSWORD` of a Super user to add where access is controlled; "": none
    controlled   True: access is controlled
    cluster      name of the node's cluster in policies
    """
    records = AccessRecords(state, config.grants)
    name, password = split(admin) if admin else ("", "")
    if not controlled:
        records.open = True
        return records, None
    name_those(state, [user for user in records.users.values() if user.name != name], records.entries, cluster)
    if name:
        user = User(name, password, privileged=True)
        if records.users.get(name) != user:
            # Set in memory before the store has written it: no client has connected yet.
            records.users[name] = user
            records.put_user(user, lambda _: None)
    if not records.users and not config.names_somebody:
        raise ConfigError("access is controlled and nobody is known: name a first user by --admin NAME:PASSWORD")
    return records, Access(records, config, wall_ms, cluster)
