"""Sources that begin with a wildcard: their topics, and updates of claims when topics are created or deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.address import is_derived_topic, is_system_topic
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_ports import Metadata
from domain.subscription.subscription import WILD_TOPICS_MAX, WebhookSubscription

SETTLE_NS: Final = 100 * MILLISECOND_NS
"""Time for which topic changes are collected before claims are updated."""
WALKED_MAX: Final = 4_096
"""Topics of the store that are examined, in order of name, derived topics included."""
_LITE: Final = "LITE"
_MEMBER: Final = "topics"
_LEFT_OUT: Final = "left_out"


@final
class WildSources:
    """Topics of subscriptions whose source begins with a wildcard.

    A filter like `+/temp` or `#` selects among the messages of all topics that clients can create. The subscription's own
    reply and dead-letter topics are excluded, since they would cause an endless loop.
    """

    def __init__(self, metadata: Metadata, clock: Clock, wild: Callable[[], Sequence[str]]) -> None:
        """`wild()`: ids of the subscriptions whose source begins with a wildcard."""
        self._metadata = metadata
        self._clock = clock
        self._wild = wild
        self._notified = True
        self._followers: list[Callable[[str], None]] = []
        metadata.follow_topics(self._topic_changed)

    def follow(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with the id of each of those subscriptions when topics have changed, from now on."""
        self._followers.append(changed)

    def topics(self, subscription: WebhookSubscription) -> list[str]:
        """Names of all matching topics, the oldest first, possibly over WILD_TOPICS_MAX. About WALKED_MAX are examined."""
        own = (subscription.reply_topic, subscription.dead_letter_topic)
        found: list[tuple[int, str]] = []
        after, left = "", WALKED_MAX
        while left > 0 and (part := self._metadata.topics_after(after, WILD_TOPICS_MAX)):
            after = part[-1].name
            left -= len(part)
            found += [
                (each.created_ms, each.name)
                for each in part
                if each.name not in own
                and each.type != _LITE
                and not each.name.startswith("$")
                and not is_derived_topic(each.name)
                and not is_system_topic(each.name)
            ]
        return [name for _, name in sorted(found)]

    def record(self, record: bytes, subscription: WebhookSubscription) -> bytes:
        """The record of a wildcard subscription for its claim: with up to WILD_TOPICS_MAX topics and the number left out."""
        found = json.loads(record)
        topics = self.topics(subscription)
        found[_MEMBER], found[_LEFT_OUT] = topics[:WILD_TOPICS_MAX], len(topics[WILD_TOPICS_MAX:])
        return json.dumps(found, separators=(",", ":")).encode()

    def _topic_changed(self, _name: str) -> None:
        if self._notified and self._wild():
            self._notified = False
            self._clock.call_at(self._clock.monotonic_ns() + SETTLE_NS, self._notify)

    def _notify(self) -> None:
        self._notified = True
        for identity in self._wild():
            for changed in self._followers:
                changed(identity)


def topics_in(record: bytes, subscription: WebhookSubscription) -> tuple[Sequence[str], int]:
    """(topics in a claim's record: those of WildSources, or the topic of the source; number of topics left out)."""
    if not subscription.wild:
        return [subscription.topic], 0
    found = json.loads(record)
    return list(found.get(_MEMBER, ())), int(found.get(_LEFT_OUT, 0))
