"""Who has subscribed to which lite topics, and in which of them there may be something for whom.

subscribed, arrived, freed --> ready --taken by a receive--> looked at: no longer ready, until more arrives or is freed
"""

from __future__ import annotations

from typing import final

from gateway.connection.client_connection import ClientConnection


@final
class LiteSubscriber:
    """One client of one group on one parent topic.

    names     lite topics; wildcard: it has all of them, and shares `ready` with the other members of its group
    ready     lite topics that may have messages for it, longest first
    seen_ns   monotonic, when it last said what it has; times in ms are of the wall clock, 0: never
    """

    __slots__ = ("client_id", "connection", "group", "names", "ready", "received_ms", "seen_ms", "seen_ns", "topic", "wildcard")

    def __init__(
        self, connection: ClientConnection, client_id: str, group: str, topic: str, ready: dict[str, None], wildcard: bool
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.group = group
        self.topic = topic
        self.names: dict[str, None] = {}
        self.ready = ready
        self.wildcard = wildcard
        self.seen_ns = 0
        self.seen_ms = 0
        self.received_ms = 0


@final
class Subscriptions:
    """All subscribers. Nothing of this is kept: clients say it again, every 30 s and after each reconnect.

    Invariant: `count` is the sum of all names; a subscriber is under each of its names in `_by_name`, or in `_wildcard`.
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], LiteSubscriber] = {}
        self._by_name: dict[tuple[str, str], dict[tuple[str, str], LiteSubscriber]] = {}
        self._wildcard: dict[str, dict[tuple[str, str], LiteSubscriber]] = {}
        self.count = 0

    def find(self, group: str, client_id: str) -> LiteSubscriber | None:
        """One subscriber."""
        return self._clients.get((group, client_id))

    def all(self) -> list[LiteSubscriber]:
        """All of them, in the order in which they came."""
        return list(self._clients.values())

    def of_group(self, group: str) -> list[LiteSubscriber]:
        """The subscribers of one group."""
        return [each for key, each in self._clients.items() if key[0] == group]

    def of(self, topic: str, lite: str, group: str = "") -> list[LiteSubscriber]:
        """Subscribers of one lite topic, those that have all among them; of one group unless that is ""."""
        found = [*self._by_name.get((topic, lite), {}).values(), *self._wildcard.get(topic, {}).values()]
        return found if group == "" else [each for each in found if each.group == group]

    def enter(self, connection: ClientConnection, client_id: str, group: str, topic: str, wildcard: bool) -> LiteSubscriber:
        """The subscriber, made when there is none, or when it had another topic or was of the other kind."""
        key = (group, client_id)
        known = self._clients.get(key)
        if known is not None and (known.topic != topic or known.wildcard != wildcard):
            self.leave(known)
            known = None
        if known is None:
            wildcards = self._wildcard.get(topic, {}) if wildcard else {}
            shared = next((each.ready for each in wildcards.values() if each.group == group), None)
            known = self._clients[key] = LiteSubscriber(
                connection, client_id, group, topic, {} if shared is None else shared, wildcard
            )
            if wildcard:
                self._wildcard.setdefault(topic, {})[key] = known
                self.count += 1
        known.connection = connection
        return known

    def add(self, subscriber: LiteSubscriber, lite: str) -> bool:
        """Subscribe to one more; False when it has it already."""
        if lite in subscriber.names:
            return False
        subscriber.names[lite] = None
        self._by_name.setdefault((subscriber.topic, lite), {})[subscriber.group, subscriber.client_id] = subscriber
        self.count += 1
        return True

    def remove(self, subscriber: LiteSubscriber, lite: str) -> bool:
        """Unsubscribe from one; False when it did not have it."""
        if lite not in subscriber.names:
            return False
        del subscriber.names[lite]
        subscriber.ready.pop(lite, None)
        self.count -= 1
        key = (subscriber.topic, lite)
        left = self._by_name[key]
        del left[subscriber.group, subscriber.client_id]
        if not left:
            del self._by_name[key]
        return True

    def leave(self, subscriber: LiteSubscriber) -> None:
        """Forget a subscriber. What was ready for it alone is looked at again by the others of its group."""
        key = (subscriber.group, subscriber.client_id)
        if self._clients.pop(key, None) is None:
            return
        for lite in list(subscriber.names):
            self.remove(subscriber, lite)
        if subscriber.wildcard:
            self.count -= 1
            left = self._wildcard[subscriber.topic]
            del left[key]
            if not left:
                del self._wildcard[subscriber.topic]
