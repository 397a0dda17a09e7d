"""The queues with rows in memory, the oldest first; and topics by name, walked through in steps while they come and go."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from store.queue.entries import TopicMap
from store.queue.queue import Queue, TopicEntry
from store.queue.tails import Tails

ENTRY = TopicEntry("t", True, 0)


def queues(count: int) -> list[Queue]:
    return [Queue(ENTRY, number) for number in range(count)]


def test_places_of_queues_that_have_gone_are_freed() -> None:
    tails = Tails()
    all_queues = queues(20_000)
    for queue in all_queues:
        tails.add(queue)
    for queue in all_queues[:-1]:
        tails.remove(queue)
    assert sum(len(part) for part in tails._parts if part is not None) <= 1_024
    assert tails.oldest(10) == all_queues[-1:]
    tails.remove(all_queues[-1])
    assert not tails
    for _ in range(3_000):
        tails.add(all_queues[7])
        tails.remove(all_queues[7])
    assert not tails
    assert not tails._parts


def test_an_old_queue_does_not_keep_the_places_behind_it() -> None:
    tails = Tails()
    old, *busy = queues(101)
    tails.add(old)
    for _ in range(200):
        for queue in busy:
            tails.add(queue)
        for queue in busy:
            tails.remove(queue)
    assert sum(len(part) for part in tails._parts if part is not None) <= 2_048
    assert tails.oldest(10) == [old]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2_999)), max_size=40), st.integers(1, 2_000))
def test_the_order_is_that_of_a_dictionary(steps: list[tuple[bool, int]], most: int) -> None:
    tails = Tails()
    all_queues = queues(3_000)
    naive: dict[Queue, None] = {}
    for adds, first in steps:
        for queue in all_queues[first : first + 700]:
            if adds and queue not in naive:
                tails.add(queue)
                naive[queue] = None
            elif not adds and queue in naive:
                tails.remove(queue)
                del naive[queue]
    assert tails.oldest(most) == list(naive)[:most]
    assert bool(tails) == bool(naive)


def test_a_walk_over_the_topics_meets_all_that_stay() -> None:
    topics = TopicMap()
    for number in range(3_000):
        topics[f"t{number:05}"] = TopicEntry(f"t{number:05}", False, 0)
    chance = random.Random(1)
    met: list[str] = []
    for step, entries in enumerate(topics.slices()):
        met += [entry.name for entry in entries]
        for _ in range(50):
            name = f"n{step}-{chance.randrange(1 << 30)}"
            topics[name] = TopicEntry(name, False, 0)
    assert met == sorted(met)
    assert {f"t{number:05}" for number in range(3_000)} <= set(met)
    assert topics["t00007"] is topics.get("t00007")
    assert "t00007" in topics
    assert topics.get("none") is None
    assert len(topics) == len(topics.names()) == len(topics.values())
