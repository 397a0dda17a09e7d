"""Configuration of a raft group: voters and learners (Ongaro's thesis, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

NODES_MAX: Final = 64
"""Nodes in one of the three sets of a configuration."""
_COUNTS: Final = struct.Struct(">HHH")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The members of a group. The identity of its log names a node: a new log is another node.

    voters     nodes whose majority elects and commits; empty on a node that does not know them yet
    outgoing   the voters before a joint change, of which a majority is needed too during it; else empty
    learners   nodes that get the log and are not counted. During a joint change a learner may be in `outgoing`, too:
               it becomes a learner when the change ends.
    """

    voters: frozenset[int] = frozenset()
    outgoing: frozenset[int] = frozenset()
    learners: frozenset[int] = frozenset()

    @property
    def is_joint(self) -> bool:
        """True between the two entries of a change of voters (thesis section 4.3)."""
        return bool(self.outgoing)

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that get the log, in ascending order."""
        return tuple(sorted(self.voters | self.outgoing | self.learners))

    def is_voter(self, node: int) -> bool:
        """True when `node` is counted in one majority at least."""
        return node in self.voters or node in self.outgoing

    def joint(self, voters: frozenset[int], learners: frozenset[int]) -> Configuration:
        """The configuration that begins a change to `voters` and `learners`."""
        return Configuration(voters, self.voters, learners)

    def final(self) -> Configuration:
        """The configuration that ends a joint one."""
        return Configuration(self.voters, frozenset(), self.learners)

    def encode(self) -> bytes:
        """Three counts of 2 bytes (voters, outgoing, learners), then the nodes of each set, ascending, 8 bytes each."""
        sets = (self.voters, self.outgoing, self.learners)
        nodes = [node for each in sets for node in sorted(each)]
        return _COUNTS.pack(*map(len, sets)) + struct.pack(f">{len(nodes)}Q", *nodes)


NOBODY: Final = Configuration()
"""Configuration at the start of a node that is not one of the first voters: it waits for a leader to send one."""


def decode(data: bytes) -> Configuration:
    """The configuration that `encode` wrote. Raises ValueError for anything else."""
    if len(data) < _COUNTS.size:
        raise ValueError(f"a configuration of {len(data)} bytes")
    counts = _COUNTS.unpack_from(data)
    if len(data) != _COUNTS.size + 8 * sum(counts):
        raise ValueError(f"a configuration of {len(data)} bytes that counts {sum(counts)} nodes")
    nodes = struct.unpack_from(f">{sum(counts)}Q", data, _COUNTS.size)
    first, second = counts[0], counts[0] + counts[1]
    sets = (nodes[:first], nodes[first:second], nodes[second:])
    if any(list(each) != sorted(set(each)) for each in sets):
        raise ValueError("the nodes of a configuration ascend")
    return Configuration(*map(frozenset, sets))
