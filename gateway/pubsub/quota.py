"""Quota of topics and of the bytes of their records: for all creators together, and for each."""

from __future__ import annotations

from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.topic.data_topic import RECORDS_BYTES_MAX, TOPICS_MAX, DataTopic

SHARE: Final = 2
"""Divisor: one creator may have half of the topics and of their bytes."""


@final
class TopicQuota:
    """Counts topics that are stored, and those that are being made.

    refused   how many topics, and changes of topics, were refused for lack of room
    _shares   creator -> (topics, bytes) of it
    """

    def __init__(self) -> None:
        self.refused = 0
        self._topics = 0
        self._bytes = 0
        self._shares: dict[str, tuple[int, int]] = {}

    def add(self, topic: DataTopic, size: int) -> None:
        """Count a topic whose record has `size` bytes."""
        self._count(topic.creator, 1, size)

    def remove(self, topic: DataTopic, size: int) -> None:
        """Count a topic, whose record has `size` bytes, no more."""
        self._count(topic.creator, -1, -size)

    def _count(self, creator: str, topics: int, size: int) -> None:
        self._topics += topics
        self._bytes += size
        number, held = self._shares.get(creator, (0, 0))
        if number + topics:
            self._shares[creator] = number + topics, held + size
        else:
            self._shares.pop(creator, None)

    def refusal(self, topic: DataTopic, topics: int, size: int) -> Failure | None:
        """QUOTA when its creator may not have `topics` and `size` bytes more; None when there is room. Nothing is counted."""
        number, held = self._shares.get(topic.creator, (0, 0))
        if self._topics + topics > TOPICS_MAX or self._bytes + size > RECORDS_BYTES_MAX:
            text = "there are as many topics as the server keeps: delete one first"
        elif number + topics > TOPICS_MAX // SHARE or held + size > RECORDS_BYTES_MAX // SHARE:
            text = "you have as many topics as one client may have: delete one first"
        else:
            return None
        self.refused += 1
        return Failure(ErrorCode.QUOTA, text)
