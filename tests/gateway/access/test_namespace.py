"""Policies over names in namespaces: stored names are what they are about, and Namespace: decides nothing (RocketMQ 5.5.0)."""

from __future__ import annotations

from domain.access.access import DENY, PUB, SUB, AccessPolicy
from domain.command import Pull, Send
from domain.message.message import Message
from tests.gateway.access.test_gate import Scene


def granted(*policies: AccessPolicy) -> Scene:
    scene = Scene()
    scene.records.put_policies("bob", policies, lambda _: None)
    return scene


def test_a_prefix_is_a_namespace() -> None:
    scene = granted(AccessPolicy("Topic:shop%*", (PUB, SUB)), AccessPolicy("Group:shop%*", (SUB,)))
    assert scene.ask("bob", Send(1, [Message("shop%orders", b"")])) is None
    assert scene.ask("bob", Pull(1, "shop%billing", "shop%orders", 0, 0, 1, 1)) is None
    assert scene.ask("bob", Pull(1, "shop%billing", "%RETRY%shop%billing", 0, 0, 1, 1)) is None
    for topic in ("orders", "yard%orders", "shop", "%RETRY%yard%billing"):
        assert scene.ask("bob", Pull(1, "shop%billing", topic, 0, 0, 1, 1)) is not None
    assert scene.ask("bob", Pull(1, "yard%billing", "shop%orders", 0, 0, 1, 1)) is not None


def test_a_policy_on_a_namespace_is_kept_and_decides_nothing() -> None:
    scene = granted(AccessPolicy("Namespace:shop", (PUB, SUB)), AccessPolicy("Namespace:*", ("All",)))
    assert scene.ask("bob", Send(1, [Message("shop%orders", b"")])) is not None
    scene = granted(AccessPolicy("Topic:*", (PUB,)), AccessPolicy("Namespace:shop", (PUB,), DENY))
    assert scene.ask("bob", Send(1, [Message("shop%orders", b"")])) is None
