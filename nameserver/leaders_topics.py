"""The topics of a replica that follows, as it registers them at name servers: none, since its leader registers them."""

from __future__ import annotations

from typing import final

from domain.nameserver.route import DataVersion, TopicQueues


@final
class LeadersTopics:
    """The port `AnnouncedTopics` of a slave. A name server keeps the topics of a broker as its master has registered them.

    epoch   in which this replica follows: the state of its version, as that of its leader's
    """

    def __init__(self, started_ms: int) -> None:
        """`started_ms`: when this replica began to follow, epoch milliseconds."""
        self.epoch = 0
        self._started_ms = started_ms

    @property
    def version(self) -> DataVersion:
        """AnnouncedTopics.version."""
        return DataVersion(self.epoch, self._started_ms, 1)

    def changed_since(self, counter: int) -> list[str] | None:
        """AnnouncedTopics.changed_since."""
        return [] if counter == 1 else None

    def topic(self, name: str) -> TopicQueues | None:
        """None: it has no topics of its own. Of the port AnnouncedTopics."""
        return None

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        """AnnouncedTopics.after."""
        return []
