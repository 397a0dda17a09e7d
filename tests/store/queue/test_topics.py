"""Topics by name: found, and walked through in steps while they come and go."""

from __future__ import annotations

import random

from store.queue.entries import TopicMap
from store.queue.queue import TopicEntry
from store.state.sorted_set import SortedSet


def test_names_are_sorted_and_come_in_steps() -> None:
    chance = random.Random(3)
    for most in (30, 5_000):
        names, naive = SortedSet[str](), set[str]()
        for _ in range(6_000):
            name = f"t{chance.randrange(most)}"
            if name in naive:
                names.remove(name)
                naive.remove(name)
            else:
                names.add(name)
                naive.add(name)
        assert names.all() == sorted(naive)
        found: list[str] = []
        while step := names.after(found[-1] if found else ""):
            assert len(step) <= 1_024
            found += step
        assert found == sorted(naive)


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
