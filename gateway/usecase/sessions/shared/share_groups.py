"""Consumer groups of shared subscriptions: made, and set to the positions at which they begin, before a session joins them."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from itertools import islice
from typing import Final, final

from domain.client.mqtt_session import MqttSubscription
from domain.errors import ErrorCode, Failure
from domain.store.store_ports import Metadata
from domain.topic.topic import Group
from gateway.routing.routes import is_routed, topic_of_filter
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.start_positions import StartPositions
from gateway.usecase.topics_and_groups import every
from gateway.usecase.topics_and_groups.groups import Groups

WILDCARD_TOPICS_MAX: Final = 256
"""Topics from which a group can get messages by subscriptions that begin with a wildcard."""
Then = Callable[[Failure | None], None]


@final
class ShareGroups:
    """Prepares the groups of shared subscriptions.

    _carried   groups that are being prepared for stored sessions
    """

    def __init__(self, start_positions: StartPositions, metadata: Metadata, groups: Groups) -> None:
        self._start_positions = start_positions
        self._metadata = metadata
        self._groups = groups
        self._carried: set[str] = set()

    def prepare(self, subscription: MqttSubscription, followed: Callable[[], Container[str]], done: Then) -> None:
        """Create the group if it does not exist, and set its start position in topics where it has none.

        The group of a share name and a filter begins where the group of the share name is, if that has a position. Topics in
        `followed()` need no start position: the group starts at their first message if it has none.

        Failures: GROUP_ILLEGAL, GROUP_NOT_FOUND, NOT_ALLOWED; QUOTA for more than WILDCARD_TOPICS_MAX topics; the store's.
        """
        share, name = subscription.group, subscription.consumer_group

        def known(failure: None | Failure) -> None:
            if failure is not None:
                done(failure)
            else:
                self._groups.ensure_share(share, name, ready)

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                done(group)
                return
            topics = self.topics(subscription.pattern)
            if len(topics) > WILDCARD_TOPICS_MAX:
                done(Failure(ErrorCode.QUOTA, f"a group can follow {WILDCARD_TOPICS_MAX} topics by wildcard"))
            else:
                following = followed()
                new = [topic for topic in topics if topic not in following]
                self._start_positions.begin(name, topic_of_filter(subscription.pattern), new, done, share)

        self._metadata.learn_groups(dict.fromkeys((share, name)), known)

    def topics(self, pattern: str) -> list[str]:
        """Existing topics that may have messages for `pattern`, one above WILDCARD_TOPICS_MAX when there are more."""
        name = topic_of_filter(pattern)
        if name == "":
            return list(islice(filter(is_routed, every.topic_names(self._metadata)), WILDCARD_TOPICS_MAX + 1))
        return [name] if self._metadata.topic(name) is not None else []

    def carry_over(self, session: MqttSession) -> None:
        """A stored session is recovered: its groups that do not exist begin where the groups of their share names are now.

        Earlier versions had the latter alone, whatever the filter. What fails here is done when the client connects.
        """
        known = self._metadata.group
        for subscription in session.shared_subscriptions.values():
            name = subscription.consumer_group
            if name not in self._carried and known(name) is None and known(subscription.group) is not None:
                self._carried.add(name)
                self.prepare(subscription, tuple, partial(self._carry_done, name))

    def _carry_done(self, name: str, _: None | Failure) -> None:
        self._carried.discard(name)
