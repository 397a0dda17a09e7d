"""What the node does unasked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Policy:
    """Creation on first use, and bounds. One object for the node: who acts by it looks at it each time, tools may change it.

    create_topics, create_groups   make what a client names and nobody made; off: refused as not found
    queues                         of a topic made that way
    latest_max, latest_bytes_max   latest (retained) values that are kept, and bytes of them with their paths; one more is
                                   refused, removing one and putting a smaller one in its place never is
    """

    create_topics: bool = True
    create_groups: bool = True
    queues: int = 8
    latest_max: int = 1_000_000
    latest_bytes_max: int = 1024 * 1024 * 1024
