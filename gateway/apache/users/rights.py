"""Users and policies as reported by a broker: the answers to LIST_USER (3005) and LIST_ACL (3010)."""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

from domain.access.access import ALLOW, AccessPolicy, Grant
from gateway.access.policy import Entry
from gateway.access.records import POLICIES_MAX, encoded, grant_key, user_key
from gateway.access.settings import name_fault, password_fault
from gateway.brokers.refusal import BrokerAnswerError
from protocols.remoting.access import SUBJECT, policies_of, user_of
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.bean import Bean

FAULTS_MAX: Final = 20
"""Unusable users and policies that are reported by name, at most."""


class ToldRights(NamedTuple):
    """The report of a broker.

    values   key -> value in the space of `gateway.access.records`
    faults   entries that cannot be used here, each with its reason, at most FAULTS_MAX
    normal   True: there is a user who is no Super user
    """

    values: dict[bytes, bytes]
    faults: list[str]
    normal: bool = False


def rights_of(users: bytes, acls: bytes) -> ToldRights:
    """The bodies of both answers -> users and policies. Raises BrokerAnswerError when they are no lists of objects.

    A user without a password, or with a name that none has here, is left out. A policy that no policy is here is left out when
    it allows; one that denies leaves the user without policies.
    """
    rights = ToldRights({}, [])
    normal = False
    for each in _beans(users, "users"):
        name = str(each.get("username", ""))
        try:
            user = user_of(name, each)
        except RequestError as error:
            _note(rights, f"User:{name[:80]}: {error}")
            continue
        fault = name_fault(name) or password_fault(user.password)
        if fault:
            _note(rights, f"User:{name[:80]}: {fault}")
        else:
            rights.values[user_key(name)] = encoded(user)
            normal = normal or not user.privileged
    for each in _beans(acls, "policies"):
        subject = str(each.get("subject", ""))
        name = subject.removeprefix(SUBJECT)
        if name == subject or name_fault(name):
            _note(rights, f"policies of {subject[:80]!r}: a subject is {SUBJECT} and the name of a user")
            continue
        policies = _usable(rights, name, each)
        if policies:
            rights.values[grant_key(name)] = encoded(Grant(name, policies))
    return rights._replace(normal=normal)


def _usable(rights: ToldRights, name: str, acl: Bean) -> tuple[AccessPolicy, ...]:
    try:
        policies = policies_of(acl)
    except RequestError as error:
        _note(rights, f"policies of User:{name}: {error}")
        return ()
    if len(policies) > POLICIES_MAX:
        _note(rights, f"User:{name} has {len(policies)} policies, {POLICIES_MAX} are taken: it has none here")
        return ()
    found: list[AccessPolicy] = []
    for policy in policies:
        try:
            Entry(policy)
        except ValueError as error:
            if policy.decision != ALLOW:
                _note(rights, f"a policy of User:{name} that denies: {error}; the user has no rights here")
                return ()
            _note(rights, f"a policy of User:{name}: {error}")
        else:
            found.append(policy)
    return tuple(found)


def _note(rights: ToldRights, fault: str) -> None:
    if len(rights.faults) < FAULTS_MAX:
        rights.faults.append(fault)


def _beans(body: bytes, what: str) -> list[Bean]:
    """A JSON list of objects; no body is an empty one."""
    if not body:
        return []
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BrokerAnswerError(f"its list of {what} is not JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BrokerAnswerError(f"its list of {what} is no list of objects")
    return found
