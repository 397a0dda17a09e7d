"""The topics of one broker as it registered them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.nameserver.route import TopicPage, TopicQueues


@final
class BrokerTopics:
    """Topic -> queues.

    While the whole table comes in pages, topics that have not come yet keep their routes; those that are left after the last
    page are gone.

    _before  topics from before the first page of the whole table, without those that a page has brought
    """

    def __init__(self) -> None:
        self._known: dict[str, TopicQueues] = {}
        self._before: dict[str, TopicQueues] = {}

    def __len__(self) -> int:
        return len(self._known) + len(self._before)

    def __contains__(self, name: str) -> bool:
        return name in self._known or name in self._before

    def get(self, name: str) -> TopicQueues | None:
        """The queues of a topic; None when the broker does not have it."""
        return self._known.get(name) or self._before.get(name)

    def names(self) -> list[str]:
        """All topics, in no order."""
        return [*self._known, *self._before]

    def added(self, topics: Mapping[str, TopicQueues]) -> int:
        """The number of these topics that are not known."""
        if not self._before:
            return len(topics.keys() - self._known.keys())
        return sum(name not in self for name in topics)

    def update(self, topics: Mapping[str, TopicQueues]) -> None:
        """Add or replace topics. Ends a whole table that was not finished: topics that it did not have stay."""
        if self._before:
            self._before.update(self._known)
            self._known, self._before = self._before, {}
        self._known.update(topics)

    def take(self, page: TopicPage) -> None:
        """Add, replace and remove topics as a page says. The first page of the whole table begins it, the last one ends it."""
        if page.base is None and page.number == 0:
            self.update({})
            self._known, self._before = {}, self._known
        if self._before:
            for name in page.topics:
                self._before.pop(name, None)
        self._known.update(page.topics)
        for name in page.gone:
            self.drop(name)
        if page.base is None and page.last:
            self._before = {}

    def drop(self, name: str) -> None:
        """Remove a topic; does nothing when it is not known."""
        self._known.pop(name, None)
        self._before.pop(name, None)
