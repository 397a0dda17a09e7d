"""Walks over all topics and all groups by name, in slices: those made or deleted meanwhile may be missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from domain.store.store_ports import Metadata
from domain.topic.topic import Group, Topic

SLICE: Final = 64
"""Topics or groups that are looked up at once."""


def topics(metadata: Metadata, after: str = "") -> Iterator[Topic]:
    """All topics behind `after`."""
    while found := metadata.topics_after(after, SLICE):
        yield from found
        after = found[-1].name


def topic_names(metadata: Metadata) -> Iterator[str]:
    """The names of all topics."""
    return (topic.name for topic in topics(metadata))


def groups(metadata: Metadata, after: str = "") -> Iterator[Group]:
    """All groups whose names are behind `after`."""
    while found := metadata.groups_after(after, SLICE):
        yield from found
        after = found[-1].name
