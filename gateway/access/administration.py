"""Commands that change and list users and policies, mqadmin's user and acl commands, and the security contexts of users."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from domain.access.access import AccessPolicy, Grant, User
from domain.access.principal import Principal
from domain.admin.oscore import (
    DeleteOscoreContext,
    HoldOscoreContext,
    OscoreContextFound,
    OscoreRunReserved,
    PutOscoreContext,
    QueryOscoreContext,
    ReserveOscoreRun,
)
from domain.admin.user import (
    CreateUser,
    DeletePolicies,
    DeleteUser,
    GrantList,
    ListPolicies,
    ListUsers,
    PutPolicies,
    UpdateUser,
    UserList,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from gateway.access.policy import Entry
from gateway.access.records import AccessRecords
from gateway.access.settings import name_fault, password_fault
from gateway.connection.client_connection import ClientConnection

SUPER_ONLY: Final = Failure(ErrorCode.NOT_ALLOWED, "only Super users may change a Super user")
NOT_WHILE_OPEN: Final = Failure(
    ErrorCode.NOT_ALLOWED,
    "access is not controlled, so that anybody could be asking: Super users are made, changed and removed when it is "
    "(start the node with --admin NAME:PASSWORD)",
)
HIDDEN: Final = ""
"""Shown in place of a password to everybody but Super users."""


@final
class Administration:
    """The use case (`gateway.usecase.handler.UseCase`) of users and policies."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records
        self.verbs: Mapping[type[Command], Callable[[ClientConnection, Any], None]] = {
            CreateUser: self._create,
            UpdateUser: self._update,
            DeleteUser: self._delete,
            ListUsers: self._list,
            PutPolicies: self._put,
            DeletePolicies: self._drop,
            ListPolicies: self._grants,
        }

    def _create(self, connection: ClientConnection, command: CreateUser) -> None:
        user = command.user
        fault = name_fault(user.name) or password_fault(user.password)
        if fault:
            self._refuse(connection, command, fault)
        elif user.name in self._records.users:
            self._refuse(connection, command, "The user is existed.")
        elif user.privileged and not self._may_change_super(connection, command):
            self._super_only(connection, command)
        else:
            self._records.put_user(user, _answer(connection, command.ticket))

    def _update(self, connection: ClientConnection, command: UpdateUser) -> None:
        known = self._records.users.get(command.name)
        fault = "" if command.password is None else password_fault(command.password)
        if known is None:
            self._refuse(connection, command, "The user is not exist.")
        elif fault:
            self._refuse(connection, command, fault)
        elif (known.privileged or command.privileged) and not self._may_change_super(connection, command):
            self._super_only(connection, command)
        else:
            changed = dataclasses.replace(
                known,
                password=known.password if command.password is None else command.password,
                privileged=known.privileged if command.privileged is None else command.privileged,
                enabled=known.enabled if command.enabled is None else command.enabled,
            )
            if self._last_super(known) and not (changed.privileged and changed.enabled):
                self._refuse(connection, command, f"User:{known.name} is the last super user that is enabled")
                return
            self._records.put_user(changed, _answer(connection, command.ticket))

    def _delete(self, connection: ClientConnection, command: DeleteUser) -> None:
        known = self._records.users.get(command.name)
        if known is not None and known.privileged and not self._may_change_super(connection, command):
            self._super_only(connection, command)
        elif known is not None and self._last_super(known):
            self._refuse(connection, command, f"User:{known.name} is the last super user that is enabled")
        else:
            self._records.drop_user(command.name, _answer(connection, command.ticket))

    def _last_super(self, known: User) -> bool:
        if not (known.privileged and known.enabled):
            return False
        return sum(user.privileged and user.enabled for user in self._records.users.values()) == 1

    def _list(self, connection: ClientConnection, command: ListUsers) -> None:
        if command.name:
            found = [user for user in (self._records.users.get(command.name),) if user is not None]
        else:
            found = [user for name, user in sorted(self._records.users.items()) if command.part in name]
        if not _privileged(connection, command):
            found = [dataclasses.replace(user, password=HIDDEN) for user in found]
        connection.answer(UserList(command.ticket, found))

    def _put(self, connection: ClientConnection, command: PutPolicies) -> None:
        user, given = command.grant.user, command.grant.policies
        known = self._records.grants.get(user)
        fault = name_fault(user) or _fault(given)
        if not given:
            fault = fault or "there is no policy"
        elif not command.create and known is None:
            fault = fault or f"User:{user} has no policies yet: create them"
        if fault:
            self._refuse(connection, command, fault)
            return
        kept = {(policy.default, policy.resource): policy for policy in (known.policies if known is not None else ())}
        kept.update({(policy.default, policy.resource): policy for policy in given})
        self._records.put_policies(user, tuple(kept.values()), _answer(connection, command.ticket))

    def _drop(self, connection: ClientConnection, command: DeletePolicies) -> None:
        known = self._records.grants.get(command.user)
        if known is None:
            connection.answer(Done(command.ticket))
            return
        kept: tuple[AccessPolicy, ...] = ()
        if command.resource:
            gone = (command.default, command.resource)
            kept = tuple(policy for policy in known.policies if (policy.default, policy.resource) != gone)
        self._records.put_policies(command.user, kept, _answer(connection, command.ticket))

    def _grants(self, connection: ClientConnection, command: ListPolicies) -> None:
        found: list[Grant] = []
        for user, grant in sorted(self._records.grants.items()):
            if (command.user and user != command.user) or command.part not in user:
                continue
            policies = tuple(policy for policy in grant.policies if command.resource in policy.resource)
            if policies:
                found.append(Grant(user, policies))
        connection.answer(GrantList(command.ticket, found))

    def _may_change_super(self, connection: ClientConnection, command: Command) -> bool:
        return not self._records.open and _privileged(connection, command)

    def _super_only(self, connection: ClientConnection, command: Any) -> None:
        if self._records.open:
            connection.answer(Refused(command.ticket, NOT_WHILE_OPEN))
            return
        text = "The super user can only be create/update by super user."
        connection.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, text)))

    def _refuse(self, connection: ClientConnection, command: Any, text: str) -> None:
        connection.answer(Refused(command.ticket, Failure(ErrorCode.ARGUMENT_ILLEGAL, text)))


@final
class ContextAdministration:
    """The use case (`gateway.usecase.handler.UseCase`) of security contexts. Answers contain neither secrets nor salts."""

    def __init__(self, records: AccessRecords) -> None:
        self._records = records
        self._contexts = records.contexts
        self.verbs: Mapping[type[Command], Callable[[ClientConnection, Any], None]] = {
            PutOscoreContext: self._put,
            DeleteOscoreContext: self._delete,
            QueryOscoreContext: self._query,
            ReserveOscoreRun: self._reserve,
            HoldOscoreContext: self._hold,
        }

    def _put(self, connection: ClientConnection, command: PutOscoreContext) -> None:
        context = command.context
        user = self._records.users.get(context.user)
        fault = context.fault or ("" if user is not None else f"there is no user {context.user[:128]}")
        if fault:
            connection.answer(Refused(command.ticket, Failure(ErrorCode.ARGUMENT_ILLEGAL, fault)))
        elif user is not None and user.privileged and self._records.open:
            connection.answer(Refused(command.ticket, NOT_WHILE_OPEN))
        elif user is not None and user.privileged and not _privileged(connection, command):
            connection.answer(Refused(command.ticket, SUPER_ONLY))
        else:
            self._contexts.put(context, _answer(connection, command.ticket))

    def _delete(self, connection: ClientConnection, command: DeleteOscoreContext) -> None:
        user = self._records.users.get(command.user)
        if user is not None and user.privileged and not _privileged(connection, command):
            connection.answer(Refused(command.ticket, SUPER_ONLY))
        elif command.user in self._contexts.by_user:
            self._contexts.drop(command.user, _answer(connection, command.ticket))
        else:
            connection.answer(Done(command.ticket))

    def _query(self, connection: ClientConnection, command: QueryOscoreContext) -> None:
        found = self._contexts.by_user.get(command.user)
        shown = None if found is None else dataclasses.replace(found, secret=b"", salt=b"")
        connection.answer(OscoreContextFound(command.ticket, shown))

    def _reserve(self, connection: ClientConnection, command: ReserveOscoreRun) -> None:
        def done(run: int | Failure) -> None:
            if isinstance(run, Failure):
                connection.answer(Refused(command.ticket, run))
            else:
                connection.answer(OscoreRunReserved(command.ticket, run))

        self._contexts.reserve(command.user, done)

    def _hold(self, connection: ClientConnection, command: HoldOscoreContext) -> None:
        self._contexts.hold(command.user, command.holder, command.before, _answer(connection, command.ticket))


def _privileged(connection: ClientConnection, command: Command) -> bool:
    """True when the client is a Super user. Where access is not controlled, every client is."""
    principal: Principal | None = getattr(command, "principal", None) or connection.principal
    return principal is None or principal.privileged


def _fault(policies: tuple[AccessPolicy, ...]) -> str:
    try:
        for policy in policies:
            Entry(policy)
    except ValueError as error:
        return str(error)
    return ""


def _answer(connection: ClientConnection, ticket: object) -> Callable[[None | Failure], None]:
    return lambda failure: connection.answer(Done(ticket) if failure is None else Refused(ticket, failure))
