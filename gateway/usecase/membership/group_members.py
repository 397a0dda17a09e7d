"""The members of one consumer group, with their subscriptions by topic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import final

from domain import address
from domain.client.membership import Membership, Subscription
from domain.lazy_heap import LazyHeap
from gateway.connection.client_connection import ClientConnection


@dataclass(slots=True)
class Member:
    """One client in one consumer group.

    connection           the connection of its last heartbeat
    membership           its subscriptions and how it consumes
    language             of its client library
    version              of its client library, as a number of RocketMQ
    seen_ns              monotonic time of its last heartbeat
    until_disconnected   True when its protocol has no heartbeats: it is a member until its connection closes
    """

    connection: ClientConnection
    membership: Membership
    language: str
    version: int
    seen_ns: int
    until_disconnected: bool = False

    @property
    def retry_topic(self) -> str:
        """The group's retry topic when this member subscribes to it, as push consumers do; else ""."""
        name = address.retry_topic(self.membership.group)
        return name if any(each.topic == name for each in self.membership.subscriptions) else ""


@final
class TopicSubscriptions:
    """The subscriptions of the members of a group to one topic.

    _by      client id -> its subscription
    _order   client ids, the newest version first; of equal ones, the oldest subscription
    """

    __slots__ = ("_by", "_number", "_order")

    def __init__(self) -> None:
        self._by: dict[str, Subscription] = {}
        self._order: LazyHeap[str] = LazyHeap()
        self._number = 0

    def put(self, client_id: str, subscription: Subscription) -> None:
        """Add the subscription of a client, or replace it; with each heartbeat it comes again."""
        if self._by.get(client_id) != subscription:
            self._number += 1
            self._by[client_id] = subscription
            self._order.put(client_id, -subscription.version, self._number)

    def remove(self, client_id: str) -> bool:
        """Remove the subscription of a client. True when none is left."""
        self._by.pop(client_id, None)
        self._order.remove(client_id)
        return not self._by

    def newest(self) -> Subscription:
        """The one with the newest version; of equal ones, the oldest."""
        first = self._order.first()
        assert first is not None, "there is a subscription"
        return self._by[first[2]]


@final
class GroupMembers:
    """The members of one group. What is asked for each message or heartbeat costs the same however many they are.

    all        client id -> member
    notified   those of `all` whose clients are notified of changes: their protocol has heartbeats
    _of        topic -> its subscriptions
    """

    __slots__ = ("_of", "all", "notified")

    def __init__(self) -> None:
        self.all: dict[str, Member] = {}
        self.notified: dict[str, Member] = {}
        self._of: dict[str, TopicSubscriptions] = {}

    def put(self, client_id: str, member: Member) -> None:
        """Add a member, or replace it."""
        before = self.all.get(client_id)
        self.all[client_id] = member
        if member.until_disconnected:
            self.notified.pop(client_id, None)
        else:
            self.notified[client_id] = member
        for each in member.membership.subscriptions:
            self._of.setdefault(each.topic, TopicSubscriptions()).put(client_id, each)
        if before is not None:
            self._forget(client_id, before, {each.topic for each in member.membership.subscriptions})

    def remove(self, client_id: str) -> bool:
        """Remove a member. False when there is no such one."""
        member = self.all.pop(client_id, None)
        if member is None:
            return False
        self.notified.pop(client_id, None)
        self._forget(client_id, member, ())
        return True

    def newest(self, topic: str) -> Subscription | None:
        """The subscription to a topic with the newest version, None when there is none."""
        found = self._of.get(topic)
        return None if found is None else found.newest()

    def _forget(self, client_id: str, member: Member, kept: Collection[str]) -> None:
        for each in member.membership.subscriptions:
            of = self._of.get(each.topic)
            if of is not None and each.topic not in kept and of.remove(client_id):
                del self._of[each.topic]
