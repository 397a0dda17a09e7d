"""Rules over MQTT paths."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.access.access import DENY, PUB, SUB
from domain.errors import ConfigError
from domain.filter.path_matching import is_filter, matches
from gateway.access.rule import Rule, RuleTable, covers, decide, overlap
from gateway.node.settings_tables import read


def rule(pattern: str, **more: object) -> Rule:
    return Rule(read(RuleTable, "rule", {"filter": pattern, **more}, {}))


@pytest.mark.parametrize(
    ("rules", "action", "path", "expected"),
    [
        ([rule("a/%c/#")], PUB, "a/dev-1/x", True),
        ([rule("a/%c/#")], PUB, "a/dev-2/x", None),
        ([rule("a/%u/+")], SUB, "a/alice/+", True),
        ([rule("a/%u/+")], SUB, "a/alice/#", None),
        ([rule("u-%u/%c")], PUB, "u-alice/dev-1", True),
        ([rule("#", users=["bob"])], PUB, "a", None),
        ([rule("#", clients=["dev-1"])], PUB, "a", True),
        ([rule("a/#", actions=[SUB])], PUB, "a/b", None),
        ([rule("test/nosubscribe", actions=[SUB], decision=DENY)], SUB, "test/nosubscribe", False),
        ([rule("test/nosubscribe", actions=[SUB], decision=DENY)], SUB, "test/#", False),
        ([rule("test/nosubscribe", actions=[SUB], decision=DENY, exact=True)], SUB, "test/#", None),
        ([rule("a/b", decision=DENY), rule("a/#")], PUB, "a/b", False),
        ([rule("a/#"), rule("a/b", decision=DENY)], PUB, "a/b", True),
    ],
)
def test_the_first_rule_that_fits_decides(rules: list[Rule], action: str, path: str, expected: bool | None) -> None:
    found = decide(rules, action, path, "alice", "dev-1")
    assert (None if found is None else found.allow) is expected


@pytest.mark.parametrize("client", ["", "a/b", "+", "#", "x#", "$SYS", "%u"])
def test_an_id_that_would_change_the_filter_is_granted_nothing_and_denied_the_level(client: str) -> None:
    assert decide([rule("a/%c/#")], SUB, "a/b/c", "alice", client) is None
    assert decide([rule("a/%c/#")], PUB, "a/b/c", "alice", client) is None
    denied = decide([rule("a/%c/#", decision=DENY)], PUB, "a/b/c", "alice", client)
    assert denied is not None
    assert not denied.allow


@pytest.mark.parametrize(
    "table",
    [
        {}, {"filter": "a/#/b"}, {"filter": "a", "decision": "Perhaps"}, {"filter": "a", "code": 5}, {"filter": "a", "x": 1},
        {"filter": "a", "actions": "Pub"}, {"filter": "a", "actions": ["Get"]}, {"filter": "a", "exact": 1},
        {"filter": "a", "users": [1]}, {"filter": "a", "code": True},
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^rule"):
        read(RuleTable, "rule", table, {})


LEVELS = ("a", "b", "$x", "")
PATHS = ["/".join(levels) for size in (1, 2, 3) for levels in product(LEVELS, repeat=size) if "/".join(levels)]
filters = st.lists(st.sampled_from(("a", "b", "+", "#", "$x", "")), min_size=1, max_size=3).map("/".join).filter(is_filter)


@settings(max_examples=100)
@given(filters, filters)
def test_covering_and_overlapping_against_every_path(one: str, other: str) -> None:
    ours = {path for path in PATHS if matches(one, path)}
    theirs = {path for path in PATHS if matches(other, path)}
    if covers(one, other):
        assert theirs <= ours
    assert not (ours & theirs) or overlap(one, other)
    if one == other:
        assert covers(one, other)
