"""`/v1/users`: users and their policies, as mqadmin manages them (RocketMQ's ACL 2.0)."""

from __future__ import annotations

from typing import Any, ClassVar, Final, final

import orjson

from domain.access.access import ACTIONS, ALLOW, DENY, AccessPolicy, Grant, User
from domain.access.oscore import AES_CCM_16_64_128, OscoreContext
from domain.admin.oscore import DeleteOscoreContext, OscoreContextFound, PutOscoreContext, QueryOscoreContext
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
from domain.errors import ErrorCode
from domain.event import Event
from protocols.http.argument import flag as query_flag
from protocols.http.argument import parameters
from protocols.http.handler import Handler, Outcome
from protocols.http.handlers.content import flag, members, octets, text, texts, whole
from protocols.http.problem import problem, refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

BODY_BYTES_MAX: Final = 64 * 1024
PRIVATE: Final = (b"cache-control", b"private, no-store")
MEMBERS: Final = ("password", "super", "enabled")
CONTEXT_MEMBERS: Final = ("device_id", "node_id", "secret", "salt", "id_context", "algorithm")
CONTEXT_EXAMPLE: Final = '{"device_id": "01", "node_id": "", "secret": "… 32 hexadecimal digits"}'
POLICY_MEMBERS: Final = ("resource", "actions", "decision", "sources", "default")


class UsersHandler(Handler):
    """A request about a user; without content or parameters it is `command` with the name. No answer has a password."""

    body_max = BODY_BYTES_MAX
    command: ClassVar[type[DeleteUser | QueryOscoreContext | DeleteOscoreContext]] = DeleteUser

    @property
    def _name(self) -> str:
        return self._match.names["user"]

    def start(self, request: Request, ticket: object) -> Outcome:
        """`command`."""
        parameters(self._match)
        return self.command(ticket, self._name), None

    def finish(self, event: Event) -> Response:
        """204 after a change; 200 with policies."""
        if isinstance(event, GrantList):
            found = [_policy(each) for grant in event.grants for each in grant.policies]
            return Response(200, [JSON, PRIVATE], orjson.dumps({"policies": found}))
        return super().finish(event)


def _user(found: User) -> dict[str, Any]:
    return {"name": found.name, "super": found.privileged, "enabled": found.enabled}


def _policy(found: AccessPolicy) -> dict[str, Any]:
    return {
        "resource": found.resource,
        "actions": list(found.actions),
        "decision": found.decision,
        "sources": list(found.sources),
        "default": found.default,
    }


@final
class GetUsers(UsersHandler):
    """`GET /v1/users`."""

    description: ClassVar[str] = "Users by name: `name super enabled`. Parameter: `part` (a part of the name)."

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListUsers."""
        return ListUsers(ticket, parameters(self._match, "part").get("part", "")), None

    def finish(self, event: Event) -> Response:
        """UserList or Refused."""
        if not isinstance(event, UserList):
            return super().finish(event)
        return Response(200, [JSON, PRIVATE], orjson.dumps({"users": [_user(each) for each in event.users]}))


@final
class GetUser(UsersHandler):
    """`GET /v1/users/{user}`."""

    description: ClassVar[str] = "One user; 404 when it does not exist."

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListUsers."""
        parameters(self._match)
        return ListUsers(ticket, name=self._name), None

    def finish(self, event: Event) -> Response:
        """UserList or Refused."""
        if not isinstance(event, UserList):
            return super().finish(event)
        if not event.users:
            return problem(404, "user-unknown", f"there is no user {self._name[:80]}")
        return Response(200, [JSON, PRIVATE], orjson.dumps(_user(event.users[0])))


@final
class MakeUser(UsersHandler):
    """`POST /v1/users/{user}`."""

    description: ClassVar[str] = (
        "POST: a new user, with `password` and, as it is, `super` (false) and `enabled` (true); 400 when there is one."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """CreateUser."""
        parameters(self._match)
        found = members(request, MEMBERS, '{"password": "…"}')
        password = text(found, "password")
        if not password:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "password is required", member="password")
        return CreateUser(ticket, User(self._name, password, flag(found, "super", False), flag(found, "enabled", True))), None


@final
class ChangeUser(UsersHandler):
    """`PATCH /v1/users/{user}`."""

    description: ClassVar[str] = "PATCH: change `password`, `super` or `enabled`; what is absent stays."

    def start(self, request: Request, ticket: object) -> Outcome:
        """UpdateUser."""
        parameters(self._match)
        found = members(request, MEMBERS, '{"enabled": false}')
        password = text(found, "password", "") or None
        privileged = flag(found, "super", False) if "super" in found else None
        enabled = flag(found, "enabled", True) if "enabled" in found else None
        return UpdateUser(ticket, self._name, password, privileged, enabled), None


@final
class RemoveUser(UsersHandler):
    """`DELETE /v1/users/{user}`."""

    description: ClassVar[str] = "DELETE: 204; the user is gone with its policies, and its connections are closed."


@final
class GetPolicies(UsersHandler):
    """`GET /v1/users/{user}/policies`."""

    description: ClassVar[str] = "Policies of a user: `resource actions decision sources default`."

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListPolicies."""
        parameters(self._match)
        return ListPolicies(ticket, user=self._name), None


@final
class PutPolicy(UsersHandler):
    """`PUT /v1/users/{user}/policies`."""

    description: ClassVar[str] = (
        "PUT: one policy, in the place of the one with the same resource and kind. `resource` (`Topic:orders`, `Group:*`), "
        "`actions` (Pub, Sub, Create, …), `decision` (Allow), `sources` (any), `default` (false)."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """PutPolicies."""
        parameters(self._match)
        found = members(request, POLICY_MEMBERS, '{"resource": "Topic:orders", "actions": ["Sub"]}')
        decision = text(found, "decision", ALLOW)
        actions = texts(found, "actions")
        if decision not in (ALLOW, DENY):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"decision is {ALLOW} or {DENY}", member="decision")
        if not actions or any(each not in ACTIONS for each in actions):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"actions are of {', '.join(ACTIONS)}", member="actions")
        policy = AccessPolicy(
            text(found, "resource"), tuple(actions), decision, tuple(texts(found, "sources")), flag(found, "default", False)
        )
        return PutPolicies(ticket, Grant(self._name, (policy,))), None


@final
class RemovePolicies(UsersHandler):
    """`DELETE /v1/users/{user}/policies`."""

    description: ClassVar[str] = (
        "DELETE: the policies on `resource` (all). Parameters: `resource`, `default` (false: the custom ones)."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """DeletePolicies."""
        asked = parameters(self._match, "resource", "default")
        return DeletePolicies(ticket, self._name, asked.get("resource", ""), query_flag("default", asked.get("default"))), None


@final
class GetContext(UsersHandler):
    """`GET /v1/users/{user}/oscore`."""

    description: ClassVar[str] = (
        "The OSCORE context of a user: `device_id node_id id_context algorithm`, never its secret; 404 when there is none."
    )
    command = QueryOscoreContext

    def finish(self, event: Event) -> Response:
        """OscoreContextFound or Refused."""
        if not isinstance(event, OscoreContextFound):
            return super().finish(event)
        found = event.context
        if found is None:
            return problem(404, "context-unknown", f"user {self._name[:80]} has no OSCORE context")
        shown = {
            "device_id": found.device_id.hex(),
            "node_id": found.node_id.hex(),
            "id_context": None if found.id_context is None else found.id_context.hex(),
            "algorithm": found.algorithm,
        }
        return Response(200, [JSON, PRIVATE], orjson.dumps(shown))


@final
class PutContext(UsersHandler):
    """`PUT /v1/users/{user}/oscore`."""

    description: ClassVar[str] = (
        "PUT: the OSCORE context of a user, in the place of the one that it has; all but `algorithm` in hexadecimal digits. "
        "`device_id` (Sender ID of the device), `node_id` (that of this node), `secret` (16 to 64 bytes), `salt` (none), "
        "`id_context` (none), `algorithm` (10, AES-CCM-16-64-128)."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """PutOscoreContext."""
        parameters(self._match)
        found = members(request, CONTEXT_MEMBERS, CONTEXT_EXAMPLE)
        context = OscoreContext(
            self._name,
            octets(found, "device_id"),
            octets(found, "node_id"),
            octets(found, "secret"),
            octets(found, "salt", b""),
            octets(found, "id_context") if found.get("id_context") is not None else None,
            whole(found, "algorithm", 0, 255, AES_CCM_16_64_128),
        )
        if context.fault:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, context.fault)
        return PutOscoreContext(ticket, context), None


@final
class RemoveContext(UsersHandler):
    """`DELETE /v1/users/{user}/oscore`."""

    description: ClassVar[str] = "DELETE: 204; the user has no OSCORE context any more."
    command = DeleteOscoreContext
