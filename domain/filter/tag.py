"""Tag expressions: `*`, `A`, `A || B` (RocketMQ's FilterAPI). Hashes are Java's String.hashCode over UTF-16 units."""

from __future__ import annotations

from typing import Final, final

from domain.filter.filter import TAG
from domain.message import property as properties

TAGS_CHARS_MAX: Final = 16_384
"""Characters of an expression: as many as the properties of a message may have by gRPC, of which its tag is one."""


def tag_hash(tag: str) -> int:
    """Java's `String.hashCode`, a signed 32-bit number; 0 for the empty tag."""
    h = 0
    if tag.isascii():
        for unit in tag.encode():
            h = (31 * h + unit) & 0xFFFFFFFF
    else:
        wide = tag.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(wide), 2):
            h = (31 * h + (wide[at] << 8 | wide[at + 1])) & 0xFFFFFFFF
    return h - 0x100000000 if h & 0x80000000 else h


@final
class TagFilter:
    """A set of tags. Tags are compared as text; their hashes only narrow the search, since they can collide."""

    __slots__ = ("cost", "expression", "hashes", "tags")

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags = frozenset(tag.encode("utf-8", "surrogatepass") for tag in tags)
        self.hashes = frozenset(tag_hash(tag) for tag in tags)
        self.expression: tuple[str, str] = (TAG, "||".join(sorted(tags)))
        self.cost: int = 1

    def matches(self, stored_properties: bytes) -> bool:
        """True when the tag of the message is in the set."""
        return properties.find(stored_properties, properties.TAGS_START) in self.tags


def parse(expression: str) -> TagFilter | None:
    """`A || B` -> a filter; None when every message matches (`*`, empty)."""
    if expression.strip() in ("", "*"):
        return None
    tags = frozenset(part.strip() for part in expression.split("||") if part.strip())
    return TagFilter(tags) if tags else None
