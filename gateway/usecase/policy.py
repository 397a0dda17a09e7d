"""What the node does unasked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Creation on first use.

    create_topics, create_groups   make what a client names and nobody made; off: refused as not found
    queues                         of a topic made that way
    """

    create_topics: bool = True
    create_groups: bool = True
    queues: int = 8
