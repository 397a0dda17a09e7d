"""The trie against a naive matcher, and removal of empty nodes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import path_in
from domain.filter.path_matching import is_filter, matches
from gateway.routing.filter_trie import Trie
from gateway.routing.routes import SubscriberRoutes, is_routed, topic_of_filter

LEVEL = st.sampled_from(["", "a", "b", "c", "$x"])
PATH = st.lists(LEVEL, min_size=1, max_size=4).map("/".join)
FILTER = st.lists(st.sampled_from(["", "a", "b", "+", "#", "$x"]), min_size=1, max_size=4).map("/".join).filter(is_filter)


@settings(max_examples=100, deadline=None)
@given(st.lists(FILTER, max_size=12), PATH)
def test_trie_agrees_with_the_naive_matcher(filters: list[str], path: str) -> None:
    trie: Trie[int] = Trie()
    for number, pattern in enumerate(filters):
        trie.insert(pattern, number)
    assert sorted(trie.match(path)) == [n for n, pattern in enumerate(filters) if matches(pattern, path)]


@settings(max_examples=100, deadline=None)
@given(st.lists(FILTER, max_size=12), st.data())
def test_removing_all_leaves_nothing_behind(filters: list[str], data: st.DataObject) -> None:
    trie: Trie[int] = Trie()
    for number, pattern in enumerate(filters):
        assert trie.insert(pattern, number)
        assert not trie.insert(pattern, number)
    order = data.draw(st.permutations(range(len(filters))))
    for number in order:
        assert trie.remove(filters[number], number)
        assert not trie.remove(filters[number], number)
    assert trie.size == 0
    assert trie._root.is_empty()


def test_leading_wildcards_do_not_reach_dollar_paths() -> None:
    """MQTT 5, 4.7.2 [MQTT-4.7.2-1]."""
    trie: Trie[str] = Trie()
    for pattern in ("#", "+/b", "$a/#", "$a/+"):
        trie.insert(pattern, pattern)
    assert trie.match("$a/b") == ["$a/#", "$a/+"]
    assert trie.match("a/b") == ["#", "+/b"]


def test_routes_follow_changes_of_the_filters() -> None:
    routes: SubscriberRoutes[str, list[str]] = SubscriberRoutes(list)
    assert routes.of("t", b"") == ("t", [])
    routes.insert("t/#", "x")
    assert routes.of("t", b"") == ("t", ["x"])
    assert routes.of("t", b"t/1") == ("t/1", ["x"])
    routes.remove("t/#", "x")
    assert routes.of("t", b"t/1") == ("t/1", [])


def test_copied_and_system_records_are_not_routed_by_their_old_path() -> None:
    routes: SubscriberRoutes[str, list[str]] = SubscriberRoutes(list)
    routes.insert("#", "x")
    assert routes.of("%RETRY%g", b"t/1")[1] == []
    assert routes.of("%DLQ%g", b"")[1] == []
    assert routes.of("SCHEDULE_TOPIC_XXXX", b"")[1] == []
    assert not is_routed("rmq_sys_anything")
    assert path_in("other", b"t/1") == "other"
    assert path_in("mqtt_other", b"/odd") == "/odd"


def test_topic_of_a_filter_is_its_first_level() -> None:
    assert topic_of_filter("sensors/+/x") == "sensors"
    assert topic_of_filter("sensors") == "sensors"
    assert topic_of_filter("/x/#") == "mqtt_other"
    assert topic_of_filter("$SYS/#") == "mqtt_other"
    assert topic_of_filter("+/x") == ""
    assert topic_of_filter("#") == ""
