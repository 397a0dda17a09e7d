"""Authentication of requests (RocketMQ's AclClientRPCHook, AclUtils); request codes 3001 to 3010: users and policies.

Signature = Base64(HMAC-SHA1(password, values of the ext fields in the order of their names, without Signature | body))
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Final

from domain.access.access import (
    ALLOW,
    CLUSTER,
    CUSTOM,
    DEFAULT,
    EVERY,
    GET,
    AccessPolicy,
    Authority,
    CheckAccess,
    Grant,
    Need,
    Signature,
    User,
)
from domain.access.principal import Principal
from domain.admin.user import (
    CreateUser,
    DeletePolicies,
    GrantList,
    ListPolicies,
    ListUsers,
    PutPolicies,
    UpdateUser,
    UserList,
)
from domain.errors import ErrorCode, Failure
from protocols.adapter import Peer
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.bean import Bean
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.header import split

ACCESS_KEY: Final = b"AccessKey"
SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
SUBJECT: Final = "User:"
UNSIGNED_UNTIL: Final = 399
"""MQVersion ordinal of V4_9_3: clients up to it leave the ext field `_UNIQUE_KEY_QUERY` out of the signature."""

UNCHECKED: Final = frozenset({codes.CHECK_CLIENT})
"""Request codes that are answered without a command and without a check of rights: the reply has no data of the node."""


def identify(authority: Authority, frame: Frame, peer: Peer) -> Principal | Failure:
    """The principal that signed `frame`; without ext field AccessKey, the principal of the connection.

    Returns a Failure when the signature is wrong or the ext fields are malformed.
    """
    if frame.ext:
        if ACCESS_KEY not in frame.ext:
            return authority.authenticate(None, peer.host, peer.principal)
        found = split(frame.ext)
        if found is None:
            return Failure(ErrorCode.NOT_AUTHENTICATED, "the ext fields of the header are malformed")
        fields = found
    else:
        fields = {name.encode(): value.encode("utf-8", "replace") for name, value in (frame.fields() or {}).items()}
    user = fields.get(ACCESS_KEY)
    if not user:
        return authority.authenticate(None, peer.host, peer.principal)
    try:
        mac = binascii.a2b_base64(fields.pop(b"Signature", b""), strict_mode=True)
    except binascii.Error:
        mac = b""
    if frame.version <= UNSIGNED_UNTIL:
        fields.pop(b"_UNIQUE_KEY_QUERY", None)
    signed = [fields[name] for name in sorted(fields)]
    signed.append(frame.body)
    return authority.authenticate(Signature(user.decode("utf-8", "replace"), mac, b"".join(signed)), peer.host)


def checked_reply(frame: Frame, reply: bytes) -> Sequence[CheckAccess]:
    """CheckAccess for a reply that needs no command: the reply is sent when the client has right GET on the cluster."""
    return (CheckAccess(Ticket(frame, lambda *_: reply), (Need(CLUSTER, EVERY, (GET,)),)),)


def create_user(_client: Client, frame: Frame) -> Outcome:
    """Request code 3001 -> CreateUser."""
    found = _body(frame)
    name = Arguments(frame).text("username", "") or bean.text(found, "username")
    _not_blank("username", name)
    _not_blank("password", bean.text(found, "password"))
    return (CreateUser(Ticket(frame, success), user_of(name, found)),)


def user_of(name: str, found: Bean) -> User:
    """UserInfo -> the user, with the name `name`. Raises RequestError for a type or a status that there is not."""
    return User(
        name,
        bean.text(found, "password"),
        _type(bean.text(found, "userType") or NORMAL),
        _status(bean.text(found, "userStatus") or ENABLED),
    )


def update_user(_client: Client, frame: Frame) -> Outcome:
    """Request code 3002 -> UpdateUser. Attributes that the body does not have stay as they are."""
    found = _body(frame)
    name = Arguments(frame).text("username", "") or bean.text(found, "username")
    kind, status = bean.text(found, "userType"), bean.text(found, "userStatus")
    return (
        UpdateUser(
            Ticket(frame, success),
            _not_blank("username", name),
            bean.text(found, "password") or None,
            _type(kind) if kind else None,
            _status(status) if status else None,
        ),
    )


def get_user(_client: Client, frame: Frame) -> Outcome:
    """Request code 3004 -> ListUsers. The reply has no body when the user does not exist."""
    return (ListUsers(Ticket(frame, _user), name=_not_blank("username", Arguments(frame).text("username", ""))),)


def _user(_client: Client, ticket: Ticket, event: UserList) -> bytes:
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_info(event.users[0])) if event.users else b"")


def list_users(_client: Client, ticket: Ticket, event: UserList) -> bytes:
    """Reply of 3005: UserInfo beans; no body when there are no users."""
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps([_info(user) for user in event.users]) if event.users else b"")


def _info(user: User) -> Bean:
    """UserInfo. It has a password only when the event has one."""
    found: Bean = {
        "userStatus": ENABLED if user.enabled else DISABLED,
        "userType": SUPER if user.privileged else NORMAL,
        "username": user.name,
    }
    if user.password:
        found["password"] = user.password
    return found


def put_policies(_client: Client, frame: Frame) -> Outcome:
    """Request codes 3006, 3007 -> PutPolicies; for 3007 the user must have policies already."""
    body = _body(frame)
    user = _subject(Arguments(frame).text("subject", "") or bean.text(body, "subject"))
    grant = Grant(user, tuple(policies_of(body)))
    return (PutPolicies(Ticket(frame, success), grant, create=frame.code == codes.CREATE_ACL),)


def delete_policies(_client: Client, frame: Frame) -> Outcome:
    """Request code 3008 -> DeletePolicies."""
    args = Arguments(frame)
    default = args.text("policyType", CUSTOM).lower() == DEFAULT.lower()
    return (DeletePolicies(Ticket(frame, success), _subject(args.text("subject")), args.text("resource", ""), default),)


def get_policies(_client: Client, frame: Frame) -> Outcome:
    """Request code 3009 -> ListPolicies. The reply has no body when the subject has no policies."""
    return (ListPolicies(Ticket(frame, _acl), user=_subject(Arguments(frame).text("subject"))),)


def list_policies(_client: Client, frame: Frame) -> Outcome:
    """Request code 3010 -> ListPolicies."""
    args = Arguments(frame)
    part = args.text("subjectFilter", "").removeprefix(SUBJECT)
    return (ListPolicies(Ticket(frame, _acls), part, args.text("resourceFilter", "")),)


def _acl(_client: Client, ticket: Ticket, event: GrantList) -> bytes:
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_acl_info(event.grants[0])) if event.grants else b"")


def _acls(_client: Client, ticket: Ticket, event: GrantList) -> bytes:
    found = [_acl_info(grant) for grant in event.grants]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(found) if found else b"")


def _acl_info(grant: Grant) -> Bean:
    """AclInfo: the policies of a user, grouped by policy type."""
    policies: list[Bean] = []
    for default, kind in ((False, CUSTOM), (True, DEFAULT)):
        entries = [
            {
                "actions": list(policy.actions),
                "decision": policy.decision,
                "resource": policy.resource,
                "sourceIps": list(policy.sources),
            }
            for policy in grant.policies
            if policy.default is default
        ]
        if entries:
            policies.append({"entries": entries, "policyType": kind})
    return {"policies": policies, "subject": SUBJECT + grant.user}


def policies_of(acl: Bean) -> list[AccessPolicy]:
    """AclInfo -> its policies, which may have values that no policy takes. Raises RequestError for a list that is too long."""
    found: list[AccessPolicy] = []
    for policy in bean.beans(acl, "policies"):
        default = bean.text(policy, "policyType", CUSTOM).lower() == DEFAULT.lower()
        for entry in bean.beans(policy, "entries"):
            resources = bean.texts(entry, "resource") or [bean.text(entry, "resource")]
            actions = tuple(action.strip().capitalize() for action in bean.texts(entry, "actions"))
            decision = bean.text(entry, "decision", ALLOW).capitalize()
            sources = tuple(source.strip() for source in bean.texts(entry, "sourceIps"))
            found += [AccessPolicy(resource, actions, decision, sources, default) for resource in resources]
    return found


def _body(frame: Frame) -> Bean:
    return bean.read(frame.body) if frame.body else {}


def _subject(text: str) -> str:
    if not text.startswith(SUBJECT):
        raise RequestError(codes.INVALID_PARAMETER, f"the subject {text[:80]!r} is not {SUBJECT} and a name")
    return _not_blank("username", text.removeprefix(SUBJECT))


def _not_blank(what: str, text: str) -> str:
    if not text.strip():
        raise RequestError(codes.INVALID_PARAMETER, f"The {what} is blank")
    return text


def _type(text: str) -> bool:
    if text.lower() not in (SUPER.lower(), NORMAL.lower()):
        raise RequestError(codes.INVALID_PARAMETER, f"the user type {text[:40]!r} is neither {SUPER} nor {NORMAL}")
    return text.lower() == SUPER.lower()


def _status(text: str) -> bool:
    if text.lower() not in (ENABLED, DISABLED):
        raise RequestError(codes.INVALID_PARAMETER, f"the user status {text[:40]!r} is neither {ENABLED} nor {DISABLED}")
    return text.lower() == ENABLED
