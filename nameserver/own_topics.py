"""The topics of this node as it registers them at name servers, with their version: its own, or those of its leader."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, final

from domain.nameserver.route import DataVersion, TopicQueues
from domain.store.store_ports import Metadata
from domain.topic.topic import PERM_READ_WRITE, Topic

CHANGES_MAX: Final = 65_536
"""Topics whose last change is known; who knows an older version gets all topics."""


@final
class OwnTopics:
    """The port `AnnouncedTopics` over the metadata of the store.

    The version begins again with each start of the node: its timestamp is that of the start. Its state is the epoch in which
    the node leads its store group: name servers ignore a registration of the same broker, at another address, in an older one.

    _changed     topic -> counter of its last change, the newest last
    _permission  permission of the broker in the versions since `_known_since`
    _known_since the oldest counter from which on all changes are in `_changed`
    """

    def __init__(self, broker: str, metadata: Metadata, permission: Callable[[], int], started_ms: int, epoch: int = 0) -> None:
        """`permission`: that of the broker now, which topics cannot exceed. `epoch`: of the leadership; 0: there is none."""
        self._broker = broker
        self._metadata = metadata
        self._permission_now = permission
        self._permission = permission()
        self._started_ms = started_ms
        self._epoch = epoch
        self._counter = 1
        self._known_since = 1
        self._changed: OrderedDict[str, int] = OrderedDict()
        metadata.follow_topics(self._topic_changed)

    @property
    def version(self) -> DataVersion:
        """AnnouncedTopics.version."""
        permission = self._permission_now()
        if permission != self._permission:  # of all topics
            self._permission = permission
            self._counter += 1
            self._known_since = self._counter
            self._changed.clear()
        return DataVersion(self._epoch, self._started_ms, self._counter)

    def changed_since(self, counter: int) -> Sequence[str] | None:
        """AnnouncedTopics.changed_since."""
        if not self._known_since <= counter <= self.version.counter:
            return None
        newest_first = takewhile(lambda name: self._changed[name] > counter, reversed(self._changed))
        return list(newest_first)

    def topic(self, name: str) -> TopicQueues | None:
        """The queues of a topic, None: this node has no such topic. Of the port AnnouncedTopics."""
        found = self._metadata.topic(name)
        return None if found is None else self._queues(found)

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        """AnnouncedTopics.after."""
        return [(topic.name, self._queues(topic)) for topic in self._metadata.topics_after(name, limit)]

    def _queues(self, topic: Topic) -> TopicQueues:
        permission = self._permission_now()
        perm = topic.perm if permission == PERM_READ_WRITE else topic.perm & permission
        return TopicQueues(self._broker, topic.read_queues, topic.write_queues, perm, topic.sys_flag)

    def _topic_changed(self, name: str) -> None:
        self._counter += 1
        self._changed.pop(name, None)
        if len(self._changed) >= CHANGES_MAX:
            self._known_since = self._changed.popitem(last=False)[1]
        self._changed[name] = self._counter


@final
class LeadersTopics:
    """The port `AnnouncedTopics` of a replica that follows: it has none.

    A name server keeps the topics of a broker as its leader has registered them.

    epoch   in which this replica follows: the state of its version, as that of its leader's
    """

    def __init__(self, started_ms: int) -> None:
        """`started_ms` is the time at which this replica began to follow, in epoch milliseconds."""
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
        """AnnouncedTopics: a follower has no topics of its own, so None for each."""
        return None

    def after(self, name: str, limit: int) -> list[tuple[str, TopicQueues]]:
        """AnnouncedTopics.after."""
        return []
