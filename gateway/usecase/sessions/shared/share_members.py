"""The members of one consumer group on one topic that are MQTT sessions, and the choice of the one that gets a message.

A choice, a change and an acknowledgement cost the same however many members there are, but for the depth of a heap.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, final

from domain.client.mqtt_session import AT_LEAST_ONCE, MqttSubscription
from domain.message import property as properties
from domain.message.record import Record
from gateway.routing.filter_trie import Trie
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.share_line import UNLIMITED, PacketLimits, Place, ShareLine
from gateway.usecase.sessions.shared.share_strategy import KEYS_MAX, KeyOwners, Member, bytes_of, is_free, room_of
from gateway.usecase.topics_and_groups.policy import ROUND_ROBIN, STICKY

MATCH_CACHE_MAX: Final = 1_024
"""Paths whose filters one dispatcher remembers."""
LOOKED_MAX: Final = 256
"""Members that one choice looks at: those that cannot take the message now, or for which it is too large."""
_KEYS: Final = "keys"
"""The line in which the member with the fewest keys is first."""


class Choice(Enum):
    """The reason for which no member gets a message.

    UNWANTED    no member has a filter that matches its path
    TOO_LARGE   it is too large for all that have one
    WAITS       no member can take it now
    """

    UNWANTED = 0
    TOO_LARGE = 1
    WAITS = 2


@final
class UndeliveredMessage:
    """A leased message that no member has been sent.

    stored      its encoded properties
    path        topic name that the message was published to
    too_small   the largest Maximum Packet Size of a member for which it was too large; 0: it was for none
    """

    __slots__ = ("lease", "path", "record", "stored", "too_small")

    def __init__(self, lease: DeliveryLease, record: Record, stored: bytes, path: str, too_small: int = 0) -> None:
        self.lease = lease
        self.record = record
        self.stored = stored
        self.path = path
        self.too_small = too_small

    def fits(self, session: MqttSession, subscription: MqttSubscription) -> bool:
        """True when the message may fit into the member's Maximum Packet Size (`share_strategy.bytes_of`)."""
        limit = session.packet_bytes_max
        if limit == 0:
            return True
        return limit > self.too_small and bytes_of(self.record, subscription.level == AT_LEAST_ONCE) <= limit


@final
class FilterMembers:
    """The members with one filter.

    lines        by strategy, and _KEYS: those of `members` that may take a message
    _declinable  limits of members that can decline a delivery; _others: of those that cannot
    """

    __slots__ = ("_declinable", "_others", "lines", "members")

    def __init__(self) -> None:
        self.members: dict[MqttSession, MqttSubscription] = {}
        self.lines: dict[str, ShareLine] = {}
        self._declinable = PacketLimits()
        self._others = PacketLimits()

    def put(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """Add a member, or replace its subscription."""
        self.remove(session)
        self.members[session] = subscription
        self._limits(subscription).add(session.packet_bytes_max or UNLIMITED)

    def remove(self, session: MqttSession) -> None:
        """Remove a member. No effect when it is none."""
        subscription = self.members.pop(session, None)
        if subscription is not None:
            self._limits(subscription).remove(session.packet_bytes_max or UNLIMITED)
            for line in self.lines.values():
                line.leave(session)

    def _limits(self, subscription: MqttSubscription) -> PacketLimits:
        return self._declinable if subscription.level == AT_LEAST_ONCE else self._others

    def take(self, message: UndeliveredMessage) -> bool:
        """True when the message may fit into the Maximum Packet Size of a member."""
        for limits, declinable in ((self._declinable, True), (self._others, False)):
            largest = limits.largest()
            if largest == UNLIMITED:
                return True
            if largest > message.too_small and bytes_of(message.record, declinable) <= largest:
                return True
        return False


@final
class ShareMembers:
    """The members of one dispatcher.

    filters   by filter, those that have it
    unsure    True: the last choice, or look for room, has ended after LOOKED_MAX members, and another one may find more
    _ready    members that may take messages: all but those that could not when they were looked at, until `wake`
    """

    __slots__ = ("_all", "_cache", "_number", "_owners", "_ready", "_trie", "filters", "unsure")

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._all: dict[MqttSession, dict[str, MqttSubscription]] = {}
        self.filters: dict[str, FilterMembers] = {}
        self._trie: Trie[FilterMembers] = Trie()
        self._cache: dict[str, list[FilterMembers]] = {}
        self._ready: dict[MqttSession, None] = {}
        self._owners = KeyOwners(keys_max)
        self._number = 0
        self.unsure = False

    def __len__(self) -> int:
        return len(self._all)

    def join(self, session: MqttSession, subscription: MqttSubscription) -> bool:
        """Add a member, or another subscription of a member, or replace one. True when its filter is new."""
        pattern = subscription.pattern
        self._all.setdefault(session, {})[pattern] = subscription
        of = self.filters.get(pattern)
        is_new = of is None
        if of is None:
            of = self.filters[pattern] = FilterMembers()
            self._trie.insert(pattern, of)
            self._cache.clear()
        of.put(session, subscription)
        self.wake(session)
        return is_new

    def leave(self, session: MqttSession, pattern: str) -> tuple[bool, bool]:
        """Remove a subscription of a member -> (True when nobody has its filter now, True when it is no member now)."""
        subscriptions = self._all.get(session)
        if subscriptions is None or subscriptions.pop(pattern, None) is None:
            return False, False
        if not subscriptions:
            del self._all[session]
            self._ready.pop(session, None)
            self._owners.disconnect(session)
        of = self.filters[pattern]
        of.remove(session)
        if not of.members:
            del self.filters[pattern]
            self._trie.remove(pattern, of)
            self._cache.clear()
        return not of.members, not subscriptions

    def wake(self, session: MqttSession) -> None:
        """A member may take messages again: it reads, or slots have become free."""
        subscriptions = self._all.get(session)
        if subscriptions is None:
            return
        self._ready[session] = None
        self._number += 1
        for pattern in subscriptions:
            for line in self.filters[pattern].lines.values():
                line.enter(session, self._number)

    def room(self, most: int) -> int:
        """Number of messages that members can take, at most `most`."""
        found = 0
        resting: list[MqttSession] = []
        for session in self._ready:
            room = room_of(session, self._all[session], most - found)
            if room == 0:
                resting.append(session)
            found += room
            if found >= most or len(resting) >= LOOKED_MAX:
                break
        for session in resting:
            del self._ready[session]
        self.unsure = found == 0 and bool(self._ready)
        return found

    def choose(self, strategy: str, message: UndeliveredMessage) -> Member | Choice:
        """The member that gets the message by the group's strategy."""
        filters = self._matching(message.path)
        if not filters:
            return Choice.UNWANTED
        if not any(each.take(message) for each in filters):
            return Choice.TOO_LARGE
        key = properties.find(message.stored, properties.SHARDING_KEY_START) if strategy == STICKY else b""
        if key:
            return self._choose_owner(key, filters, message)
        return self._first(strategy, filters, message) or Choice.WAITS

    def _choose_owner(self, key: bytes, filters: list[FilterMembers], message: UndeliveredMessage) -> Member | Choice:
        """The owner of a key, or the member with the fewest keys, when it has none or its owner cannot have the message."""
        owner = self._owners.owner(key)
        if owner is not None:
            subscription = _subscription(owner, filters)
            if subscription is not None and message.fits(owner, subscription):
                return (owner, subscription) if is_free(owner, subscription) else Choice.WAITS
            self.wake(self._owners.forget(key))
        chosen = self._first(_KEYS, filters, message)
        if chosen is None:
            return Choice.WAITS
        lost = self._owners.assign(key, chosen[0])
        if lost is not None:
            self.wake(lost)
        return chosen

    def _first(self, order: str, filters: list[FilterMembers], message: UndeliveredMessage) -> Member | None:
        """The first member, in this order, that can take the message; it becomes the last of its rank."""
        lines = [each.lines.get(order) or self._line(order, each) for each in filters]
        too_large: list[tuple[ShareLine, Place]] = []
        chosen: Member | None = None
        for _ in range(LOOKED_MAX):
            place, line = _lowest(lines)
            if place is None or line is None:
                break
            session = place[2]
            line.leave(session)
            subscription = _subscription(session, filters)
            if subscription is None or not is_free(session, subscription):
                continue
            if message.fits(session, subscription):
                chosen = session, subscription
                for each in lines:
                    each.leave(session)
                self.wake(session)
                break
            too_large.append((line, place))
        else:
            self.unsure = True
        for line, (_, number, session) in too_large:
            # The next choice looks at others first, unless this one has found a member.
            self._number += chosen is None
            line.enter(session, number if chosen is not None else self._number)
        return chosen

    def _line(self, order: str, of: FilterMembers) -> ShareLine:
        """The line of members of a filter, made when a message is first distributed in this order."""
        rank = self._owners.keys if order == _KEYS else _in_turn if order == ROUND_ROBIN else _leases
        line = ShareLine(rank)
        of.lines[order] = line
        for session in of.members:
            self._number += 1
            line.enter(session, self._number)
        return line

    def _matching(self, path: str) -> list[FilterMembers]:
        """The members of each filter that matches `path`."""
        found = self._cache.get(path)
        if found is None:
            if len(self._cache) >= MATCH_CACHE_MAX:
                self._cache.clear()
            found = self._cache[path] = self._trie.match(path)
        return found


def _lowest(lines: Iterable[ShareLine]) -> tuple[Place | None, ShareLine | None]:
    """The lowest of the first places, and its line."""
    found: Place | None = None
    of: ShareLine | None = None
    for line in lines:
        place = line.first()
        if place is not None and (found is None or place[:2] < found[:2]):
            found, of = place, line
    return found, of


def _subscription(session: MqttSession, filters: Iterable[FilterMembers]) -> MqttSubscription | None:
    """The member's subscription of the highest QoS among these, None when it has none."""
    found: MqttSubscription | None = None
    for each in filters:
        subscription = each.members.get(session)
        if subscription is not None and (found is None or subscription.level > found.level):
            found = subscription
    return found


def _in_turn(_session: MqttSession) -> int:
    return 0


def _leases(session: MqttSession) -> int:
    return session.leases
