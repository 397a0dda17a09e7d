"""What the node does unasked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Policy:
    """Creation on first use. One object for the node: whoever acts by it looks at it each time, for tools may change it.

    create_topics, create_groups   make what a client names and nobody made; off: refused as not found
    queues                         of a topic made that way
    """

    create_topics: bool = True
    create_groups: bool = True
    queues: int = 8
