"""The order of queues of a PRIORITY topic, as a number that is no queue id."""

from __future__ import annotations

import itertools

import pytest

from domain.delivery import priority

ORDERS = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize(("lowest_first", "again_first"), ORDERS)
def test_an_order_comes_back_from_its_number(lowest_first: bool, again_first: bool) -> None:
    number = priority.looking(lowest_first, again_first)
    assert priority.by_priority(number)
    assert (priority.lowest_first(number), priority.again_first(number)) == (lowest_first, again_first)


def test_the_orders_have_different_numbers() -> None:
    assert len({priority.looking(*order) for order in ORDERS}) == len(ORDERS)


@pytest.mark.parametrize("queue_id", [-1, 0, 1, 1_000_000])
def test_a_queue_id_is_no_order(queue_id: int) -> None:
    assert not priority.by_priority(queue_id)
