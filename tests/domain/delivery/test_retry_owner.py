"""Whose a message in a retry topic is: judged by its own RETRY_TOPIC, never by the name alone."""

from __future__ import annotations

import pytest

from domain.delivery.retry_owner import RetryFilter, kept, origin_topic, parse, retry_filter
from domain.filter.expression import compiled
from domain.filter.filter import RETRY, Filter
from domain.message.message import Message
from domain.message.property import encode as stored_form
from domain.message.record import encode
from domain.topic.topic import Group

TOPIC = "%RETRY%a_b_c"
MOVED = {"RETRY_TOPIC": "c", "1ST_POP_TIME": "1"}
SENT_BACK = {"RETRY_TOPIC": "c", "ORIGIN_MESSAGE_ID": "M"}
SENT_AGAIN = {"RETRY_TOPIC": "c", "RECONSUME_TIME": "1"}
GROUPS = ("a", "a_b", "a_b_c")


def find(*names: str):  # type: ignore[no-untyped-def]
    return lambda name: Group(name) if name in names else None


def has(reader: str, marks: dict[str, str], *groups: str, topic: str = TOPIC) -> bool:
    record = encode(Message(topic, b"x", stored_form(marks.items()), queue_id=0), 0, 0, 1, b"\x7f\0\0\x01\0\0\0\x01")
    return bool(kept([record], topic, reader, find(*groups)))


@pytest.mark.parametrize(
    ("marks", "owner"),
    [
        (MOVED, "a_b"), ({"RETRY_TOPIC": "c"}, "a_b"), ({**MOVED, "RETRY_TOPIC": "b_c"}, "a"), (SENT_BACK, "a_b_c"),
        (SENT_AGAIN, "a_b_c"), ({"RETRY_TOPIC": "other"}, "a_b_c"), ({}, "a_b_c"), ({**MOVED, **SENT_BACK}, "a_b_c"),
    ],
)  # fmt: skip
def test_a_message_of_a_retry_topic_is_for_one_group(marks: dict[str, str], owner: str) -> None:
    assert [group for group in GROUPS if has(group, marks, *GROUPS)] == [owner]
    assert has("", marks, *GROUPS) == has("stranger", marks, *GROUPS) == (owner == "a_b_c"), "what a reader without a part has"


def test_without_the_group_in_front_a_message_is_for_that_of_the_whole_name() -> None:
    """`app_orders` has got back what came late from topic `orders`: earlier versions left it in this form."""
    late = {"RETRY_TOPIC": "orders", "1ST_POP_TIME": "1"}
    assert has("app_orders", late, "app_orders", topic="%RETRY%app_orders")
    assert not has("app_orders", late, "app_orders", "app", topic="%RETRY%app_orders")


def test_names_of_one_owner_need_no_look_at_the_messages() -> None:
    for topic in ("t", "%RETRY%g", "%RETRY%a_b+c_d", "%DLQ%a_b"):
        assert retry_filter(topic, "g", find(*GROUPS)) is None
    assert retry_filter(TOPIC, "a_b_c", find("a_b_c")) is None, "no group can have moved messages there"


def test_a_filter_in_a_retry_topic_has_both_rules_and_can_be_told_to_another_node() -> None:
    tagged = compiled("TAG", "x")
    assert tagged is not None
    assert not isinstance(tagged, tuple)
    inner: Filter = tagged  # type: ignore[assignment]
    found = retry_filter(TOPIC, "a_b", find(*GROUPS), True, inner)
    assert isinstance(found, RetryFilter)
    kind, text = found.expression
    told = parse(text, compiled)  # type: ignore[arg-type]
    assert kind == RETRY
    assert told.expression == found.expression
    assert told.hashes == inner.hashes
    assert (found.cost, RetryFilter("a_b", "a", frozenset()).cost) == (2, 1)
    for each in (found, told):
        assert each.matches(stored_form({**MOVED, "TAGS": "x"}.items()))
        assert not each.matches(stored_form({**MOVED, "TAGS": "y"}.items()))
        assert not each.matches(stored_form({**MOVED, "RETRY_TOPIC": "b_c", "TAGS": "x"}.items()))
    assert parse(RetryFilter("a_b", "a", frozenset()).expression[1], lambda kind, text: None).hashes is None
    with pytest.raises(ValueError, match="not enough values"):
        parse("a", lambda kind, text: None)


def test_the_rest_is_for_the_reader_when_nobody_else_can_be_meant() -> None:
    alone = retry_filter(TOPIC, "a_b", find("a_b"), True)
    assert alone is not None
    assert alone.matches(b"")


@pytest.mark.parametrize(
    ("topic", "marks", "origin"),
    [
        ("t", {"RETRY_TOPIC": "x"}, "t"), ("%RETRY%g", {"RETRY_TOPIC": "x"}, "x"), ("%RETRY%g+x", {}, "x"),
        ("%RETRY%g", {}, "%RETRY%g"), ("%RETRY%g+y", {"RETRY_TOPIC": "x"}, "x"),
    ],
)  # fmt: skip
def test_the_topic_that_a_message_was_sent_to(topic: str, marks: dict[str, str], origin: str) -> None:
    assert origin_topic(topic, stored_form(marks.items())) == origin
