"""Tag expressions and filters over paths."""

from __future__ import annotations

import pytest

from domain.filter import path_matching, tag
from domain.message import property as properties


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        # MQTT 5, 4.7.1
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/#", "sport", True),
        ("#", "a/b", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        # 4.7.2
        ("#", "$SYS/broker", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/broker", True),
        ("ACCOUNTS", "Accounts", False),
    ],
)
def test_topic_filters(pattern: str, topic: str, fits: bool) -> None:
    assert path_matching.is_filter(pattern)
    assert path_matching.matches(pattern, topic) is fits


@pytest.mark.parametrize("pattern", ["", "a/#/b", "a#", "a+", "+a/b", "a\x00", "x" * 4097])
def test_illegal_filters(pattern: str) -> None:
    assert not path_matching.is_filter(pattern)


def test_tag_hash_is_javas() -> None:
    """String.hashCode: "A" 65, "Aa" and "BB" collide, wraps to a signed int; UTF-16 units outside the BMP."""
    assert [tag.tag_hash(text) for text in ("", "A", "Aa", "BB", "TagOfSomeLength")] == [0, 65, 2112, 2112, -648703285]
    assert tag.tag_hash("\U0001f600") == 1772899


def test_expressions_select_by_string_not_by_hash() -> None:
    only = tag.parse("Aa || C")
    assert only is not None
    assert only.matches(properties.encode([("TAGS", "Aa")]))
    assert not only.matches(properties.encode([("TAGS", "BB")]))
    assert not only.matches(b"")
    assert tag.parse("*") is None
    assert tag.parse(" ") is None
