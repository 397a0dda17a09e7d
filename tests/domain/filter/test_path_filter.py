"""Filters by MQTT path: a record is wanted when the path that it was sent to matches one of the patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.address import OTHER_PATHS_TOPIC
from domain.filter import stored_path_filter as module
from domain.filter.path_matching import matches
from domain.filter.stored_path_filter import PathFilter, path_filter

LEVELS = st.lists(st.sampled_from(("a", "b", "c")), min_size=1, max_size=4)
PATTERNS = st.lists(st.sampled_from(("+", "a", "b")), max_size=3).flatmap(
    lambda levels: st.sampled_from(("/".join(["t", *levels]), "/".join(["t", *levels, "#"])))
)


def origin(path: str) -> bytes:
    return f"TAGS\x01x\x02originMqttTopic\x01{path}\x02".encode()


@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(LEVELS, max_size=8))
def test_a_record_is_wanted_when_a_pattern_matches_its_path(patterns: list[str], paths: list[list[str]]) -> None:
    wanted = PathFilter("t", patterns)
    for levels in [*paths, *paths]:
        path = "/".join(["t", *levels])
        assert wanted.matches(origin(path)) == any(matches(pattern, path) for pattern in patterns)


@pytest.mark.parametrize("stored", [b"", origin("other/a"), origin("t/+")])
def test_a_record_without_a_valid_path_of_the_topic_has_the_topic_as_its_path(stored: bytes) -> None:
    assert PathFilter("t", ["t"]).matches(stored)
    assert not PathFilter("t", ["other/a"]).matches(stored)


def test_many_different_paths_do_not_grow_the_memory_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_PATHS_MAX", 3)
    wanted = PathFilter("t", ["t/+/x"])
    for number in range(10):
        assert wanted.matches(origin(f"t/{number}/x"))
        assert not wanted.matches(origin(f"t/{number}/y"))
        assert len(wanted._cache) <= 3


@pytest.mark.parametrize(
    ("topic", "patterns", "is_needed"),
    [
        ("t", ["t/#"], False),
        ("t", ["t/a", "#"], False),
        ("t", ["t/+"], True),
        (OTHER_PATHS_TOPIC, ["#"], True),
    ],
)
def test_no_filter_is_needed_where_every_path_of_the_topic_matches(topic: str, patterns: list[str], is_needed: bool) -> None:
    assert (path_filter(topic, patterns) is not None) == is_needed


def test_everything_does_not_match_paths_of_the_node() -> None:
    wanted = path_filter(OTHER_PATHS_TOPIC, ["#"])
    assert wanted is not None
    assert not wanted.matches(origin("$x/a"))
    assert wanted.matches(origin("/a"))


def test_tags_say_nothing_about_paths() -> None:
    assert PathFilter("t", ["t"]).hashes is None
