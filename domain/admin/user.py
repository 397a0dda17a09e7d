"""Users and their access policies as tools change them (RocketMQ's ACL 2.0), and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.access import Grant, User
from domain.command import Command
from domain.event import Event


@dataclass(slots=True)
class CreateUser(Command):
    """Add a user -> Done. Refused ARGUMENT_ILLEGAL when it is there; NOT_ALLOWED for a Super one by another than a Super."""

    ticket: object
    user: User


@dataclass(slots=True)
class UpdateUser(Command):
    """Change what is not None -> Done. Refused ARGUMENT_ILLEGAL when there is no such user; NOT_ALLOWED as for CreateUser."""

    ticket: object
    name: str
    password: str | None = None
    privileged: bool | None = None
    enabled: bool | None = None


@dataclass(slots=True)
class DeleteUser(Command):
    """Remove a user and its policies -> Done, also when it is not there."""

    ticket: object
    name: str


@dataclass(slots=True)
class ListUsers(Command):
    """Users whose name has `part` in it, or the one named `name` -> UserList. Passwords only for a Super user to see."""

    ticket: object
    part: str = ""
    name: str = ""


@dataclass(slots=True)
class UserList(Event):
    """Users, by name."""

    ticket: object
    users: list[User] = field(default_factory=list)


@dataclass(slots=True)
class PutPolicies(Command):
    """Add policies of a user, each in the place of one with the same resource -> Done. ARGUMENT_ILLEGAL for what is none.

    create    False: the user must have some already
    """

    ticket: object
    grant: Grant
    create: bool = True


@dataclass(slots=True)
class DeletePolicies(Command):
    """Remove a user's policies: those on `resource`, "" all of them -> Done, also when there are none."""

    ticket: object
    user: str
    resource: str = ""
    default: bool = False


@dataclass(slots=True)
class ListPolicies(Command):
    """Policies of users with `part` in their name, on resources with `resource` in theirs; or all of `user`'s -> GrantList."""

    ticket: object
    part: str = ""
    resource: str = ""
    user: str = ""


@dataclass(slots=True)
class GrantList(Event):
    """Policies by user."""

    ticket: object
    grants: list[Grant] = field(default_factory=list)
