"""Topics by name: found, and walked through in steps while they come and go."""

from __future__ import annotations

import random

from store.queue.entries import TopicMap
from store.queue.queue import TopicEntry


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
