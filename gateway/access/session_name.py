"""Names of sessions: where access is controlled, a session is of one user and one client id."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from gateway.access.path_rights import PathRights
from gateway.connection.client_connection import ClientConnection

_USER: Final = "\x01"
"""Begins the name of a user's session: no client id has it."""


class SessionName(NamedTuple):
    """The name of a client's session.

    name      name under which it is, in memory and in the store
    earlier   name under which it may be stored by another setting or an earlier version; "": none
    user      its user; "": access is not controlled
    """

    name: str
    earlier: str
    user: str


def name_of(connection: ClientConnection, client_id: str, rights: PathRights) -> SessionName:
    """The name of the session of a client that connects."""
    principal = connection.principal
    if principal is None or rights.access is None:
        return SessionName(client_id, "", "")
    own = f"{_USER}{quote(principal.user, safe='')}/{client_id}"
    if rights.access.sessions_by_user:
        return SessionName(own, client_id, principal.user)
    return SessionName(client_id, own, principal.user)


def client_id_in(name: str) -> str:
    """The client id of a session, from its name."""
    return name.partition("/")[2] if name.startswith(_USER) else name


def shown(name: str) -> str:
    """The name of a session as tools and lines of the log have it: the client id, or `USER/CLIENT-ID`."""
    return name.removeprefix(_USER)
