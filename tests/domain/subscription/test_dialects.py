"""Filters of subscriptions: each dialect, and what is refused (Subscriptions API, 3.2.4)."""

from __future__ import annotations

import pytest

from domain.subscription.filters import DEPTH_MAX, SubscriptionError, predicate
from domain.subscription.subscription import FILTERS_MAX

EVENT = {"type": "com.example.made", "subject": "a/b", "id": "1"}


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([], True),
        ([{"exact": {"type": "com.example.made"}}], True),
        ([{"exact": {"type": "com.example.made", "subject": "x"}}], False),
        ([{"prefix": {"type": "com."}}, {"suffix": {"subject": "/b"}}], True),
        ([{"prefix": {"absent": "x"}}], False),
        ([{"all": [{"exact": {"id": "1"}}, {"not": {"exact": {"id": "2"}}}]}], True),
        ([{"any": [{"exact": {"id": "3"}}, {"sql": "subject LIKE 'a/%'"}]}], True),
        ([{"sql": "nothing = 1"}], False),
    ],
)
def test_dialects(filters: list[object], wanted: bool) -> None:
    assert predicate(filters)(EVENT) is wanted


def test_types_are_a_filter_too() -> None:
    assert predicate([], ["com.example.made", "x"])(EVENT)
    assert not predicate([], ["x"])(EVENT)


def _nested(depth: int) -> object:
    return {"exact": {"id": "1"}} if depth == 0 else {"not": _nested(depth - 1)}


@pytest.mark.parametrize(
    ("filters", "member"),
    [
        ({}, "filters"),
        ("exact", "filters"),
        ([{"regex": {"type": "x"}}], "filters[0].regex"),
        ([{"exact": {}}], "filters[0].exact"),
        ([{"exact": {"Type": "x"}}], "filters[0].exact.Type"),
        ([{"exact": {"type": ""}}], "filters[0].exact.type"),
        ([{"all": []}], "filters[0].all"),
        ([{"any": [{"all": [{}]}]}], "filters[0].any[0].all[0]"),
        ([{"sql": "type LIKE"}], "filters[0].sql"),
        ([{"sql": " "}], "filters[0].sql"),
        ([{"exact": {"id": "1"}, "prefix": {"id": "1"}}], "filters[0]"),
        ([{"exact": {"id": "1"}}] * (FILTERS_MAX + 1), f"filters[{FILTERS_MAX}]"),
    ],
)
def test_what_is_refused_names_its_member(filters: object, member: str) -> None:
    with pytest.raises(SubscriptionError) as error:
        predicate(filters)
    assert error.value.member == member


def test_depth_is_bounded() -> None:
    predicate([_nested(DEPTH_MAX - 1)])
    with pytest.raises(SubscriptionError):
        predicate([_nested(DEPTH_MAX)])
