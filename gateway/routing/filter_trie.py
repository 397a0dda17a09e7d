"""A trie of topic filters by level: finds the filters that match a path (MQTT 5, 4.7)."""

from __future__ import annotations

from typing import Generic, TypeVar, final

V = TypeVar("V")


@final
class TrieNode(Generic[V]):
    """One level of the trie.

    children   nodes of the next level, by level name or `+`
    ends       values of filters that end at this level
    tails      values of filters that end with `#` below this level
    """

    __slots__ = ("children", "ends", "tails")

    def __init__(self) -> None:
        self.children: dict[str, TrieNode[V]] = {}
        self.ends: dict[V, None] = {}
        self.tails: dict[V, None] = {}

    def is_empty(self) -> bool:
        """True when the node has no children and no values."""
        return not self.children and not self.ends and not self.tails


@final
class Trie(Generic[V]):
    """Maps filters to values. Values of one filter keep the order of insertion, so that a simulation is repeatable.

    Invariant: `size` is the number of (filter, value) pairs, and no node but the root is empty.
    """

    __slots__ = ("_root", "size")

    def __init__(self) -> None:
        self._root: TrieNode[V] = TrieNode()
        self.size = 0

    def insert(self, pattern: str, value: V) -> bool:
        """Add a pair; False when it exists. `pattern` is a valid filter (domain.filter.path_matching.is_filter)."""
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
        """Remove a pair and the nodes that become empty; False when it does not exist."""
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
        """Values of every filter that matches `path`. A value with two matching filters occurs twice."""
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
