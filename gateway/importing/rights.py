"""Users and their policies. A user of the node is never changed: who may do what there is for its operators to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from gateway.importing.cluster import SourceBroker
from gateway.importing.row import Outcome, Row, done
from gateway.importing.server import Server, json_of
from protocols.remoting import codes

USER: Final = "user"
POLICY: Final = "policy"


def copy_rights(brokers: Sequence[SourceBroker], node: Server, dry: bool) -> Iterator[Row]:
    """Make the users and policies of all brokers at the node."""
    for broker in brokers:
        if broker.closed:
            yield Row(USER, "*", Outcome.LEFT, broker.closed)
    users = {str(each.get("username")): each for broker in reversed(brokers) for each in broker.users}
    policies = {str(each.get("subject")): each for broker in reversed(brokers) for each in broker.policies}
    if not users and not policies:
        return
    listed = [node.ask(code) for code in (codes.LIST_USER, codes.LIST_ACL)]
    refused = next((frame for frame in listed if frame.code != 0), None)
    if refused is not None:
        yield Row(USER, "*", Outcome.LEFT, f"{node} does not take users: {refused.remark}; start it with --admin NAME:PASSWORD")
        return
    yield from _copy_users(users, _names(listed[0].body, "username"), node, dry)
    yield from _copy_policies(policies, _names(listed[1].body, "subject"), node, dry)


def _names(body: bytes, field: str) -> set[str]:
    found = json_of(body)
    return {str(each.get(field)) for each in found if isinstance(each, dict)} if isinstance(found, list) else set()


def _copy_users(users: dict[str, dict[str, object]], there: set[str], node: Server, dry: bool) -> Iterator[Row]:
    for name, user in sorted(users.items()):
        detail = f"{user.get('userType')}, {user.get('userStatus')}"
        if name in there:
            yield Row(USER, name, Outcome.KEPT, "the node has a user of this name")
        elif not user.get("password"):
            yield Row(USER, name, Outcome.LEFT, "its broker does not tell the password")
        elif dry:
            yield Row(USER, name, Outcome.MADE, detail)
        else:
            body = orjson.dumps({key: user.get(key) for key in ("username", "password", "userType", "userStatus")})
            yield done(USER, name, Outcome.MADE, detail, node.ask(codes.CREATE_USER, {"username": name}, body))


def _copy_policies(policies: dict[str, dict[str, object]], there: set[str], node: Server, dry: bool) -> Iterator[Row]:
    for subject, policy in sorted(policies.items()):
        if subject in there:
            yield Row(POLICY, subject, Outcome.KEPT, "the node has policies of this user")
        elif dry:
            yield Row(POLICY, subject, Outcome.MADE)
        else:
            answer = node.ask(codes.CREATE_ACL, {"subject": subject}, orjson.dumps(policy))
            yield done(POLICY, subject, Outcome.MADE, "", answer)
