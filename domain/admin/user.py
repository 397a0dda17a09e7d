"""Users and their access policies as tools change them (RocketMQ's ACL 2.0), and the answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.access.access import Grant, User
from domain.command import TicketedCommand
from domain.event import TicketedEvent


@dataclass(slots=True)
class CreateUser(TicketedCommand):
    """Add a user -> Done.

    Errors: ARGUMENT_ILLEGAL (the user exists), NOT_ALLOWED (only a Super user may add a Super user).
    """

    user: User


@dataclass(slots=True)
class UpdateUser(TicketedCommand):
    """Change a user; None leaves a field as it is -> Done.

    privileged   True: it becomes a Super user
    enabled      False: it cannot log in

    Errors: ARGUMENT_ILLEGAL (there is no such user), NOT_ALLOWED as for CreateUser.
    """

    name: str
    password: str | None = None
    privileged: bool | None = None
    enabled: bool | None = None


@dataclass(slots=True)
class DeleteUser(TicketedCommand):
    """Remove a user and its policies -> Done, also when there is no such user."""

    name: str


@dataclass(slots=True)
class ListUsers(TicketedCommand):
    """Users -> UserList. Only a Super user sees passwords.

    part   a part of the name; "": all
    name   one user by its whole name; "": by `part`
    """

    part: str = ""
    name: str = ""


@dataclass(slots=True)
class UserList(TicketedEvent):
    """Users by name."""

    users: list[User] = field(default_factory=list)


@dataclass(slots=True)
class PutPolicies(TicketedCommand):
    """Add policies of a user; each replaces the one of the same kind (default or custom) with the same resource -> Done.

    create   False: the user must have policies already

    Errors: ARGUMENT_ILLEGAL (a policy is not valid, or there is no such user).
    """

    grant: Grant
    create: bool = True


@dataclass(slots=True)
class DeletePolicies(TicketedCommand):
    """Remove policies of a user -> Done, also when there are none.

    resource   the policies on this resource; "": all
    default    True: the default policies, False: the custom ones
    """

    user: str
    resource: str = ""
    default: bool = False


@dataclass(slots=True)
class ListPolicies(TicketedCommand):
    """Policies by user -> GrantList.

    part       a part of the user's name; "": all users
    resource   a part of the resource; "": all resources
    user       one user by its whole name; "": by `part`
    """

    part: str = ""
    resource: str = ""
    user: str = ""


@dataclass(slots=True)
class GrantList(TicketedEvent):
    """Policies by user."""

    grants: list[Grant] = field(default_factory=list)
