"""Subscriptions of clients to lite topics, and which of these are ready: they may have messages for the client.

A lite topic becomes ready for a subscriber when the client subscribes, when a message arrives, and when a lease ends. It is not
ready any more once an attempt of a receive has looked at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from gateway.connection.client_connection import ClientConnection


@final
@dataclass(slots=True, eq=False)
class LiteSubscriber:
    """One client of one group on one parent topic.

    connection    the connection that subscribed for it last
    topic         the parent topic
    names         lite topics that it is subscribed to; empty for a wildcard subscriber
    ready         lite topics that may have messages for it, longest ready first; members of a wildcard group share it
    wildcard      True when it is subscribed to all lite topics of the parent topic
    seen_ns       monotonic time of its last SyncSubscription
    seen_ms       wall-clock time of its last SyncSubscription, 0: never
    received_ms   wall-clock time at which it last received messages, 0: never
    """

    connection: ClientConnection
    client_id: str
    group: str
    topic: str
    ready: dict[str, None]
    wildcard: bool
    names: dict[str, None] = field(default_factory=dict)
    seen_ns: int = 0
    seen_ms: int = 0
    received_ms: int = 0


@final
class Subscriptions:
    """All subscribers, in memory only: clients send their subscriptions every 30 s and after each reconnect.

    Invariant: a subscriber is under each of its names in `_by_name`, or in `_wildcard`.

    count   lite topics of all subscribers together; a wildcard subscriber counts as one
    """

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], LiteSubscriber] = {}
        self._by_name: dict[tuple[str, str], dict[tuple[str, str], LiteSubscriber]] = {}
        self._wildcard: dict[str, dict[tuple[str, str], LiteSubscriber]] = {}
        self.count = 0

    def find(self, group: str, client_id: str) -> LiteSubscriber | None:
        """The subscriber of a group with this client id, None when there is none."""
        return self._clients.get((group, client_id))

    def all(self) -> list[LiteSubscriber]:
        """All subscribers, in the order in which they subscribed first."""
        return list(self._clients.values())

    def of_group(self, group: str) -> list[LiteSubscriber]:
        """The subscribers of one group."""
        return [each for key, each in self._clients.items() if key[0] == group]

    def of(self, topic: str, lite: str, group: str = "") -> list[LiteSubscriber]:
        """Subscribers of one lite topic, wildcard subscribers included; of all groups when `group` is ""."""
        found = [*self._by_name.get((topic, lite), {}).values(), *self._wildcard.get(topic, {}).values()]
        return found if group == "" else [each for each in found if each.group == group]

    def enter(self, connection: ClientConnection, client_id: str, group: str, topic: str, wildcard: bool) -> LiteSubscriber:
        """The subscriber of this client. A new one is made when its parent topic or `wildcard` is another than before."""
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
        """Subscribe to one lite topic. Returns False when the client is subscribed to it already."""
        if lite in subscriber.names:
            return False
        subscriber.names[lite] = None
        self._by_name.setdefault((subscriber.topic, lite), {})[subscriber.group, subscriber.client_id] = subscriber
        self.count += 1
        return True

    def remove(self, subscriber: LiteSubscriber, lite: str) -> bool:
        """Unsubscribe from one lite topic. Returns False when the client is not subscribed to it."""
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
        """Remove a subscriber with all its subscriptions. Harmless when it is not there."""
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
