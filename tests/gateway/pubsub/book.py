"""The book of topics of a composed node."""

from __future__ import annotations

from gateway.node.composition import Parts
from gateway.pubsub.data_topics import DataTopics


def book_of(parts: Parts) -> DataTopics:
    """The book of CoAP's publish-subscribe draft."""
    (book,) = parts.use_cases["pubsub"].verbs
    assert isinstance(book, DataTopics)
    return book
