"""The roles of a node, and the ports that a process opens for each.

    gateway      serves the clients of all protocols
    store        stores all data, and handles the commands of its own clients and of gateways
    nameserver   registers brokers, and answers queries of their routes
    controller   elects the leaders of store groups

A process has one or more roles. A gateway without the role store forwards the commands of its clients to the store of another
process; a name server beside it has its own port, users and data, and does not wait for that store. A controller has its own
port, users and data beside any other role: the folder `controller` in the data directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from domain.errors import ConfigError

GATEWAY: Final = "gateway"
STORE: Final = "store"
NAMESERVER: Final = "nameserver"
CONTROLLER: Final = "controller"
ALL: Final = (GATEWAY, STORE, NAMESERVER)
"""The roles of `headgate up`."""
KNOWN: Final = (*ALL, CONTROLLER)
REPLICA: Final = "replica"
"""The part of a process whose store is a replica; the settings `[replication]` add it, and no list of roles names it."""
APACHE: Final = "apache"
"""The roles gateway and store before an Apache RocketMQ cluster; the table `[store]` selects it, no list of roles names it."""
_BEHIND: Final = (REPLICA, STORE, CONTROLLER, GATEWAY, NAMESERVER)
"""Roles in their order: the first one that a process has serves the others of it too."""
ADMIN_LISTENER: Final = "admin"
READERS: Final = "readers"
"""The listener of a replica that is open while it follows."""
_LISTENERS: Final = {
    STORE: ("remoting", "vip"), NAMESERVER: ("nameserver",), CONTROLLER: ("controller",), REPLICA: ("replication", READERS),
}  # fmt: skip
"""Role -> the listeners that it needs, beside that for administration. A gateway opens all but those of a controller
and a replica."""


def roles_of(text: str) -> frozenset[str]:
    """The roles in a list with commas. Raises ConfigError for an unknown name, and for no name at all."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    wanted = f"some of {', '.join(KNOWN)} are wanted, with commas between"
    for name in names:
        if name not in KNOWN and text != REPLICA:
            raise ConfigError(f"roles is {text!r}: {name!r} is no role; {wanted}")
    if not names:
        raise ConfigError(f"roles is {text!r}: {wanted}")
    return frozenset(names)


def parts_of(roles: frozenset[str], replicated: bool = False) -> Sequence[str]:
    """Roles that are parts of their own in this process: with a port, users and data that the other roles do not share.

    A controller beside any other role, a name server beside a gateway that forwards, and what a replicated store says to its
    followers.
    """
    rest = roles - {CONTROLLER}
    parts = [CONTROLLER] if rest and rest != roles else []
    if replicated and STORE in roles:
        parts.append(REPLICA)
    return [*parts, NAMESERVER] if rest == {GATEWAY, NAMESERVER} else parts


def role_behind(roles: frozenset[str], is_rocketmq: bool) -> str:
    """The installed role that is behind the ports of a process with these roles. `is_rocketmq`: messages are in a cluster."""
    return APACHE if is_rocketmq else next(name for name in _BEHIND if name in roles)


def listeners_of(roles: frozenset[str], known: Iterable[str]) -> list[str]:
    """Those of the `known` listeners that a process with these roles opens, in their order."""
    if GATEWAY in roles:
        return [name for name in known if name not in (*_LISTENERS[CONTROLLER], *_LISTENERS[REPLICA])]
    wanted = {ADMIN_LISTENER, *(name for role in roles for name in _LISTENERS[role])}
    return [name for name in known if name in wanted]
