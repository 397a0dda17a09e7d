"""Topic filters as a trie of levels: which subscribers a path reaches (MQTT 5, 4.7)."""

from __future__ import annotations

from typing import Generic, TypeVar, final

V = TypeVar("V")


@final
class TrieNode(Generic[V]):
    """One level: what goes on below it, whose filter ends here, and whose filter ends here with `#`."""

    __slots__ = ("children", "ends", "tails")

    def __init__(self) -> None:
        self.children: dict[str, TrieNode[V]] = {}
        self.ends: dict[V, None] = {}
        self.tails: dict[V, None] = {}

    def is_empty(self) -> bool:
        """True when nothing hangs here and the node may go."""
        return not self.children and not self.ends and not self.tails


@final
class Trie(Generic[V]):
    """Filters -> values. Values of one filter keep the order in which they came, so that a run can be repeated exactly.

    Invariant: `size` counts (filter, value) pairs, and no node but the root is bare.
    """

    __slots__ = ("_root", "size")

    def __init__(self) -> None:
        self._root: TrieNode[V] = TrieNode()
        self.size = 0

    def insert(self, pattern: str, value: V) -> bool:
        """Add one pair; False when it was there. `pattern` is a legal filter (domain.filter.path.is_filter)."""
        levels = pattern.split("/")
        tail = levels[-1] == "#"
        node = self._root
        for level in levels[:-1] if tail else levels:
            child = node.children.get(level)
            if child is None:
                child = TrieNode()
                node.children[level] = child
            node = child
        values = node.tails if tail else node.ends
        if value in values:
            return False
        values[value] = None
        self.size += 1
        return True

    def remove(self, pattern: str, value: V) -> bool:
        """Take one pair out, with the levels that only it needed; False when it was not there."""
        levels = pattern.split("/")
        tail = levels.pop() == "#"
        if not tail:
            levels = pattern.split("/")
        trail: list[TrieNode[V]] = [self._root]
        for level in levels:
            child = trail[-1].children.get(level)
            if child is None:
                return False
            trail.append(child)
        values = trail[-1].tails if tail else trail[-1].ends
        if value not in values:
            return False
        del values[value]
        self.size -= 1
        for at in range(len(levels) - 1, -1, -1):
            if not trail[at + 1].is_empty():
                break
            del trail[at].children[levels[at]]
        return True

    def match(self, path: str) -> list[V]:
        """Values of every filter that `path` matches, once a filter: a value under two matching filters comes twice."""
        out: list[V] = []
        nodes = [self._root]
        wild = not path.startswith("$")
        for level in path.split("/"):
            following: list[TrieNode[V]] = []
            for node in nodes:
                if wild:
                    out.extend(node.tails)
                    child = node.children.get("+")
                    if child is not None:
                        following.append(child)
                child = node.children.get(level)
                if child is not None and level != "+":
                    following.append(child)
            if not following:
                return out
            nodes = following
            wild = True
        for node in nodes:
            out.extend(node.ends)
            out.extend(node.tails)
        return out
