"""Rules that deny paths, and commands that read a whole topic: whoever may not have a part of it may not read all of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from domain.access.access import SUB, AccessPolicy
from domain.admin.message import Peek, QueryMessages, ViewMessage
from domain.admin.subscription import PutSubscription
from domain.admin.topic import QueryTopic
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import Command, CommitOffsets, FollowTopic, HoldQueues, Pull, QueryLatest, Receive, Watch
from domain.errors import ErrorCode
from gateway.node.use_cases import all_needs
from tests.gateway.access.memory import access_config
from tests.gateway.access.test_gate import Scene

DENIED: dict[str, object] = {"filter": "test/bob/#", "actions": ["Sub"], "decision": "Deny"}
CONSUMER: dict[str, object] = {"filter": "test/#", "actions": ["Sub"], "users": ["alice"]}
TOPIC = "test"


def readers(topic: str = TOPIC) -> list[Command]:
    """The commands that read a whole topic."""
    member = Membership("g", "CONSUME_POP", "CLUSTERING", "", [Subscription(topic, "*", "TAG", 0)])
    return [
        Pull(1, "g", topic, 0, 0, 1, 100),
        Receive(1, "g", topic, 1, 1_000),
        FollowTopic(1, topic, {}, "last", 0, 0, 1, 100),
        HoldQueues(1, "spark", topic, {}, 1_000),
        QueryMessages(1, topic, "key"),
        Peek(1, "g", topic, 0, 1),
        Heartbeat(1, "c", consumers=[member]),
    ]


def refused(rules: list[dict[str, object]], commands: list[Command], scene: Scene | None = None) -> list[str]:
    """Of these commands of alice, those that are refused."""
    scene = scene or Scene({"rules": rules})
    codes = [(type(command).__name__, scene.refusal("alice", command)) for command in commands]
    assert {code for _, code in codes} <= {None, ErrorCode.NOT_ALLOWED}
    return [name for name, code in codes if code is not None]


def test_a_topic_with_a_path_that_is_denied_is_read_by_no_door() -> None:
    names = [type(command).__name__ for command in readers()]
    assert refused([], readers()) == []
    assert refused([DENIED], readers()) == names
    assert refused([{**DENIED, "filter": "+/bob"}], readers()) == names, "a filter that could match there"


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([{**DENIED, "users": ["bob"]}], id="of another user"),
        pytest.param([{**DENIED, "filter": "tests/#"}], id="of another topic"),
        pytest.param([{**DENIED, "actions": ["Pub"]}], id="of publishing"),
        pytest.param([{**DENIED, "exact": True}], id="of nothing but the path, as for filters"),
        pytest.param([CONSUMER, DENIED], id="below an allowance of the whole topic"),
    ],
)
def test_other_rules_leave_a_topic_as_it_is(rules: list[dict[str, object]]) -> None:
    assert refused(rules, readers()) == []


def test_an_allowance_of_paths_gives_no_topic() -> None:
    scene = Scene({"rules": [{"filter": "other/#", "users": ["alice"]}]})
    assert len(refused([], readers("other"), scene)) == len(readers())


def test_paths_that_are_not_denied_are_read_as_before() -> None:
    at_bob: list[Command] = [
        Watch(1, "test/bob/x"),
        QueryLatest(1, "test/bob/x"),
        FollowTopic(1, TOPIC, {}, "last", 0, 0, 1, 100, pattern="test/#"),
    ]
    at_alice: list[Command] = [Watch(1, "test/alice/#"), QueryLatest(1, "test/alice/x")]
    at_alice.append(FollowTopic(1, TOPIC, {}, "last", 0, 0, 1, 100, pattern="test/alice/#"))
    assert refused([DENIED], at_bob) == ["Watch", "QueryLatest", "FollowTopic"]
    assert refused([DENIED], at_alice) == []


def test_what_gives_no_messages_needs_no_more_than_before() -> None:
    others: list[Command] = [QueryTopic(1, TOPIC), CommitOffsets(1, "g", [(TOPIC, 0, 1)])]
    assert refused([DENIED], others) == []


def test_messages_by_their_place_may_be_of_any_path() -> None:
    scene = Scene({"rules": [DENIED]})
    scene.records.put_policies("alice", (AccessPolicy("Topic:*", (SUB,)),), lambda _: None)
    assert refused([], [ViewMessage(1, 0)], scene) == ["ViewMessage"]


def test_paths_without_a_topic_of_their_own_are_in_one_topic() -> None:
    """`mqtt_other` has them all."""
    scene = Scene({"rules": [{**DENIED, "filter": "/bob/#"}]})
    scene.records.put_policies("alice", (AccessPolicy("Topic:*", (SUB,)), AccessPolicy("Group:g", (SUB,))), lambda _: None)
    assert len(refused([], readers("mqtt_other"), scene)) == len(readers())
    assert refused([], readers(), scene) == []


@pytest.mark.parametrize(
    ("source", "taken"), [("test", False), ("test/#", False), ("test/bob/x", False), ("test/alice/#", True), ("tests", True)]
)
def test_a_webhook_whose_source_is_a_topic_receives_all_of_its_paths(source: str, taken: bool) -> None:
    wanted = all_needs().table[PutSubscription](SimpleNamespace(source=source, group="", topics=()))
    scene = Scene({"rules": [DENIED]})
    assert (scene.access.first_denial(scene.principal("alice"), wanted, "") is None) is taken


def test_a_rule_that_is_new_counts_at_once() -> None:
    scene = Scene({"rules": []})
    assert refused([], readers(), scene) == []
    scene.access.reconfigure(access_config({"rules": [DENIED]}))
    assert len(refused([], readers(), scene)) == len(readers())
