"""What reading a lite queue by its name needs: rights to its parent topic, as to the topic itself."""

from __future__ import annotations

import pytest

from domain.access.access import Need
from domain.admin.topic import QueryBounds, SearchOffset
from domain.command import CommitOffsets, Pull, QueryOffset
from gateway.node.use_cases import all_needs

LIGHT, PARENT = "%LMQ%$sessions$a", "sessions"


@pytest.mark.parametrize(
    "make",
    [
        lambda topic: Pull(1, "g", topic, 0, 0, 1, 1),
        lambda topic: QueryOffset(1, "g", topic, 0),
        lambda topic: CommitOffsets(1, "g", [(topic, 0, 1)]),
        lambda topic: QueryBounds(1, topic, 0),
        lambda topic: SearchOffset(1, topic, 0, 5),
    ],
)
def test_the_parent_topic_is_what_is_asked_for(make: object) -> None:
    light, parent = make(LIGHT), make(PARENT)  # type: ignore[operator]
    needed = list(all_needs().table[type(light)](light))
    assert needed == list(all_needs().table[type(parent)](parent))
    assert PARENT in [need.name for need in needed if isinstance(need, Need)]
