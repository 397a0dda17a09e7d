"""Who sends a request (RocketMQ's AclClientRPCHook, AclUtils), and codes 3001 to 3010: users and policies.

Signature = Base64(HMAC-SHA1(password, values of the ext fields in the order of their names, without Signature | body))
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Final

from domain.access import (
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
from domain.errors import ErrorCode, Failure
from domain.event import Event
from domain.principal import Principal
from protocols.adapter import Peer
from protocols.remoting import bean, codes, fastjson
from protocols.remoting.bean import Bean
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.header import split
from protocols.remoting.ticket import Arguments, Outcome, RequestError, Ticket, success

ACCESS_KEY: Final = b"AccessKey"
SUPER: Final = "Super"
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
SUBJECT: Final = "User:"
UNSIGNED_UNTIL: Final = 399
"""Clients up to V4_9_3 do not sign the mark of a query by unique id."""

UNCHECKED: Final = frozenset({codes.CHECK_CLIENT})
"""Answered without a command, and about nothing that is anybody's."""


def identify(authority: Authority, frame: Frame, peer: Peer) -> Principal | Failure:
    """Who has signed `frame`; without AccessKey, whoever the connection belongs to."""
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
    """A reply that needs no command, once it is allowed: what a broker says of itself is the cluster's."""
    return (CheckAccess(Ticket(frame, lambda *_: reply), (Need(CLUSTER, EVERY, (GET,)),)),)


def create_user(_client: Client, frame: Frame) -> Outcome:
    """3001 -> CreateUser."""
    found = _body(frame)
    name = Arguments(frame).text("username", "") or bean.text(found, "username")
    user = User(
        _not_blank("username", name),
        _not_blank("password", bean.text(found, "password")),
        _type(bean.text(found, "userType") or NORMAL),
        _status(bean.text(found, "userStatus") or ENABLED),
    )
    return (CreateUser(Ticket(frame, success), user),)


def update_user(_client: Client, frame: Frame) -> Outcome:
    """3002 -> UpdateUser: what the body leaves out stays."""
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


def delete_user(_client: Client, frame: Frame) -> Outcome:
    """3003 -> DeleteUser."""
    return (DeleteUser(Ticket(frame, success), Arguments(frame).text("username")),)


def get_user(_client: Client, frame: Frame) -> Outcome:
    """3004 -> ListUsers; no body for one that is not there."""
    return (ListUsers(Ticket(frame, _user), name=_not_blank("username", Arguments(frame).text("username", ""))),)


def list_users(_client: Client, frame: Frame) -> Outcome:
    """3005 -> ListUsers."""
    return (ListUsers(Ticket(frame, _users), part=Arguments(frame).text("filter", "")),)


def _user(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, UserList)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_info(event.users[0])) if event.users else b"")


def _users(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, UserList)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps([_info(user) for user in event.users]) if event.users else b"")


def _info(user: User) -> Bean:
    """UserInfo; a password that the asker may not see is left out."""
    found: Bean = {
        "userStatus": ENABLED if user.enabled else DISABLED,
        "userType": SUPER if user.privileged else NORMAL,
        "username": user.name,
    }
    if user.password:
        found["password"] = user.password
    return found


def create_policies(_client: Client, frame: Frame) -> Outcome:
    """3006 -> PutPolicies."""
    return (PutPolicies(Ticket(frame, success), _grant(frame)),)


def update_policies(_client: Client, frame: Frame) -> Outcome:
    """3007 -> PutPolicies of a user that has some."""
    return (PutPolicies(Ticket(frame, success), _grant(frame), create=False),)


def delete_policies(_client: Client, frame: Frame) -> Outcome:
    """3008 -> DeletePolicies."""
    args = Arguments(frame)
    default = args.text("policyType", CUSTOM).lower() == DEFAULT.lower()
    return (DeletePolicies(Ticket(frame, success), _subject(args.text("subject")), args.text("resource", ""), default),)


def get_policies(_client: Client, frame: Frame) -> Outcome:
    """3009 -> ListPolicies; no body for a subject that has none."""
    return (ListPolicies(Ticket(frame, _acl), user=_subject(Arguments(frame).text("subject"))),)


def list_policies(_client: Client, frame: Frame) -> Outcome:
    """3010 -> ListPolicies."""
    args = Arguments(frame)
    part = args.text("subjectFilter", "").removeprefix(SUBJECT)
    return (ListPolicies(Ticket(frame, _acls), part, args.text("resourceFilter", "")),)


def _acl(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, GrantList)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(_acl_info(event.grants[0])) if event.grants else b"")


def _acls(_client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, GrantList)
    found = [_acl_info(grant) for grant in event.grants]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(found) if found else b"")


def _acl_info(grant: Grant) -> Bean:
    """AclInfo: entries gathered by the type of their policy."""
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


def _grant(frame: Frame) -> Grant:
    body = _body(frame)
    user = _subject(Arguments(frame).text("subject", "") or bean.text(body, "subject"))
    found: list[AccessPolicy] = []
    for policy in bean.beans(body, "policies"):
        default = bean.text(policy, "policyType", CUSTOM).lower() == DEFAULT.lower()
        for entry in bean.beans(policy, "entries"):
            resources = bean.texts(entry, "resource") or [bean.text(entry, "resource")]
            actions = tuple(action.strip().capitalize() for action in bean.texts(entry, "actions"))
            decision = bean.text(entry, "decision", ALLOW).capitalize()
            sources = tuple(source.strip() for source in bean.texts(entry, "sourceIps"))
            found += [AccessPolicy(resource, actions, decision, sources, default) for resource in resources]
    return Grant(user, tuple(found))


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
