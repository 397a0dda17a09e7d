"""The commands of administrators: what the audit log says about each. Passwords, keys and bodies are never said.

A command class that changes users, rights, contexts, subscriptions, topics, groups, positions or settings has a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from domain.access.access import AccessPolicy
from domain.admin import broker, data_topic, group, oscore, position, subscription, topic, user
from domain.command import Command
from domain.controller import controller_list, request
from domain.nameserver import route

VALUE_CHARS_MAX: Final = 256
ITEMS_MAX: Final = 16
Target = Callable[[Any], dict[str, object]]


def _fields(*names: str) -> Target:
    return lambda command: {name: getattr(command, name) for name in names}


def _policy(found: AccessPolicy) -> str:
    sources = f" from {','.join(found.sources)}" if found.sources else ""
    return f"{found.decision} {','.join(found.actions)} on {found.resource}{sources}{' by default' if found.default else ''}"


def _policies(command: user.PutPolicies) -> dict[str, object]:
    policies = [_policy(each) for each in command.grant.policies[:ITEMS_MAX]]
    return {"user": command.grant.user, "policies": policies, "count": len(command.grant.policies)}


def _created(command: user.CreateUser) -> dict[str, object]:
    return {"user": command.user.name, "super": command.user.privileged, "enabled": command.user.enabled}


def _updated(command: user.UpdateUser) -> dict[str, object]:
    known = {"super": command.privileged, "enabled": command.enabled, "password": "changed" if command.password else None}
    return {"user": command.name, **{name: value for name, value in known.items() if value is not None}}


def _put_topic(command: topic.PutTopic) -> dict[str, object]:
    found = command.topic
    return {"topic": found.name, "read_queues": found.read_queues, "write_queues": found.write_queues}


def _setting(command: route.PutSetting) -> dict[str, object]:
    return {"namespace": command.namespace, "key": command.key, "removed": command.value is None}


ACTIONS: Final[Mapping[type[Command], tuple[str, Target]]] = {
    user.CreateUser: ("user.create", _created),
    user.UpdateUser: ("user.update", _updated),
    user.DeleteUser: ("user.delete", lambda command: {"user": command.name}),
    user.PutPolicies: ("policies.put", _policies),
    user.DeletePolicies: ("policies.delete", _fields("user", "resource")),
    oscore.PutOscoreContext: ("context.put", lambda command: {"user": command.context.user}),
    oscore.DeleteOscoreContext: ("context.delete", _fields("user")),
    subscription.PutSubscription: ("subscription.put", _fields("id", "source", "group")),
    subscription.DeleteSubscription: ("subscription.delete", _fields("id")),
    subscription.ChangeStatus: ("subscription.status", _fields("id", "status")),
    subscription.Redrive: ("subscription.redrive", _fields("id", "limit")),
    subscription.ResetSubscription: ("subscription.reset", _fields("id", "to_ms")),
    topic.PutTopic: ("topic.put", _put_topic),
    topic.ChangeTopic: ("topic.change", lambda command: {"topic": command.change.name}),
    topic.DeleteTopic: ("topic.delete", _fields("topic")),
    data_topic.MakeDataTopic: ("data-topic.make", _fields("name")),
    data_topic.ChangeDataTopic: ("data-topic.change", _fields("id")),
    data_topic.DeleteDataTopic: ("data-topic.delete", _fields("id")),
    group.PutGroup: ("group.put", lambda command: {"group": command.group.name}),
    group.DeleteGroup: ("group.delete", _fields("group")),
    group.SetReadable: ("group.readable", _fields("group", "topic", "readable")),
    group.SetRequestMode: ("group.mode", _fields("group", "topic", "mode")),
    group.RedriveGroup: ("group.redrive", _fields("group", "limit")),
    position.ResetPositions: ("positions.reset", _fields("group", "topic", "timestamp_ms")),
    position.ClonePositions: ("positions.clone", _fields("source", "target", "topic")),
    broker.ChangeNodePolicy: ("node.settings", lambda command: {"changed": sorted(command.changes)}),
    route.DropRoute: ("route.drop", _fields("topic")),
    route.SetWritable: ("broker.writable", _fields("broker", "writable")),
    route.PutSetting: ("nameserver.setting", _setting),
    request.ChangeGroup: ("store-group.change", lambda command: {"change": type(command.change).__name__}),
    request.ChangeControllerSettings: ("controller.settings", lambda command: {"changed": sorted(command.values)}),
    controller_list.ChangeControllers: ("controllers.change", _fields("address", "remove")),
}
"""Command class -> (name of the action, its target)."""


def shown(target: Mapping[str, object]) -> dict[str, object]:
    """A target with bounded values: whoever asks chooses their size."""
    return {name: _cut(value) for name, value in target.items()}


def _cut(value: object) -> object:
    if isinstance(value, str):
        return value[:VALUE_CHARS_MAX]
    if isinstance(value, list):
        return [_cut(each) for each in value[:ITEMS_MAX]]
    return value
