"""Offset JSON: canonical, with a version, and readable from options that a person writes."""

from __future__ import annotations

import json

import pytest

from gateway.client.answer import Edges, Epoch, QueueRoute
from gateway.connectors.spark import offset
from gateway.connectors.spark.failure import OptionError, TopicRemadeError

A0, A1, B0 = QueueRoute("a", "orders", 0), QueueRoute("a", "orders", 1), QueueRoute("b", "orders", 0)
BOUNDS = {A0: Edges(5, 50, 7), A1: Edges(0, 10, 7), B0: Edges(2, 20, (2, 900))}
EPOCHS: dict[QueueRoute, Epoch] = {A0: 7, A1: 7, B0: (2, 900)}


def test_equal_positions_are_equal_text() -> None:
    one, other = offset.document({A1: 2, B0: 3, A0: 1}, EPOCHS), offset.document({A0: 1, A1: 2, B0: 3}, EPOCHS)
    assert json.dumps(one) == json.dumps(other)
    assert offset.document({A0: 1, B0: 3}, EPOCHS) == {
        "v": 2, "q": {"a/orders": {"0": 1}, "b/orders": {"0": 3}}, "e": {"a/orders": 7, "b/orders": {"0": [2, 900]}},
    }  # fmt: skip


def test_reading_gives_back_what_was_written() -> None:
    position = {A0: 1, A1: 2, B0: 4, QueueRoute("a/b", "t", 7): 0}
    found = json.loads(json.dumps(offset.document(position, EPOCHS)))
    assert offset.read(found) == position
    assert offset.epochs_of(found) == EPOCHS


def test_offsets_of_version_1_are_read() -> None:
    found: offset.Document = {"v": 1, "q": {"a/orders": {"0": 1}}}
    assert offset.read(found) == {A0: 1}
    assert offset.epochs_of(found) == {}
    first: offset.Document = {"v": 1, "q": {"a/orders": {"0": 9}}, "from": {"a/orders": {"0": 4}}}
    assert offset.start_of(offset.initial({A0: 7}, {}), first) == {A0: 4}


def test_ten_thousand_queues_stay_below_300_kib() -> None:
    queues = [QueueRoute("broker-a", "orders", number) for number in range(10_000)]
    found = offset.document(dict.fromkeys(queues, 123_456_789), dict.fromkeys(queues, 1_795_328_262_147))
    assert len(json.dumps(found)) < 300 * 1024


def test_another_version_is_refused() -> None:
    with pytest.raises(OptionError, match="offsets of version 3, this connector reads versions up to 2"):
        offset.read({"v": 3, "q": {}})


@pytest.mark.parametrize("epochs", [5, {"a/orders": {"0": 4}}, {"a/orders": {"0": [1]}}, {"a/orders": {"0": [1, "2"]}}])
def test_malformed_epochs_are_named(epochs: object) -> None:
    with pytest.raises(OptionError, match=r"[Ee]poch"):
        offset.epochs_of({"v": 2, "q": {"a/orders": {"0": 1}}, "e": epochs})


def test_the_first_batch_starts_where_the_checkpoint_says() -> None:
    end = offset.end_of_batch({A0: 9}, EPOCHS, {A0: 4})
    assert offset.start_of(offset.initial({A0: 7}, EPOCHS), end) == {A0: 4}
    assert offset.start_of(offset.document({A0: 7}, EPOCHS), offset.document({A0: 9}, EPOCHS)) == {A0: 7}


def test_a_later_batch_starts_new_queues_where_the_checkpoint_says() -> None:
    end = offset.end_of_batch({A0: 9, A1: 5}, EPOCHS, {A1: 3})
    assert offset.start_of(offset.document({A0: 7}, EPOCHS), end) == {A0: 7, A1: 3}


def test_offsets_of_a_deleted_topic_are_no_start() -> None:
    with pytest.raises(TopicRemadeError, match="'orders', queue 0 on a"):
        offset.resolve("startingOffsets", json.dumps(offset.document({A0: 7}, {A0: 6})), BOUNDS)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('{"orders":{"0":17}}', {A0: 17, A1: 0, B0: 17}),
        ('{"a/orders":{"0":17}}', {A0: 17, A1: 0, B0: 2}),
        ('{"orders":{"1":-1,"0":-2}}', {A0: 5, A1: 10, B0: 2}),
        ('{"v":1,"q":{"b/orders":{"0":3}}}', {A0: 5, A1: 0, B0: 3}),
        ("{}", {A0: 5, A1: 0, B0: 2}),
    ],
)
def test_starting_offsets_of_a_person(text: str, position: dict[QueueRoute, int]) -> None:
    assert offset.resolve("startingOffsets", text, BOUNDS) == position


def test_queues_that_are_not_named_end_at_their_end() -> None:
    assert offset.resolve("endingOffsets", '{"a/orders":{"0":17}}', BOUNDS) == {A0: 17, A1: 10, B0: 20}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[]", "is an object such as"),
        ('{"orders":5}', "are an object of queue numbers, not 5"),
        ('{"orders":{"x":5}}', "whole numbers"),
        ('{"orders":{"0":1.5}}', "whole numbers"),
        ('{"orders":{"0":true}}', "whole numbers"),
        ('{"orders":{"0":-3}}', "whole numbers"),
        ('{"orders":{"9":3}}', "names queue 9 of 'orders'; the query does not read it"),
        ('{"v":7,"q":{}}', "version 7"),
    ],
)
def test_wrong_offsets_are_named(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        offset.resolve("startingOffsets", text, BOUNDS)
