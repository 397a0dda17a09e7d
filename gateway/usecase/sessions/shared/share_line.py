"""Members of one shared subscription in the order in which they get messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.lazy_heap import LazyHeap
from gateway.usecase.sessions.mqtt_session import MqttSession

UNLIMITED: Final = 1 << 62
"""The Maximum Packet Size of a client that has none."""

Place = tuple[int, int, MqttSession]
"""(rank, number, member): the lowest is first. Numbers are unique."""


@final
class ShareLine:
    """Members that may take a message: those with the lowest rank first, and of equal rank the one that has waited longest.

    `rank` of a member may rise at any time: its place is corrected when it is first. When it falls, `enter` is called.
    """

    __slots__ = ("_line", "_rank")

    def __init__(self, rank: Callable[[MqttSession], int]) -> None:
        self._rank = rank
        self._line: LazyHeap[MqttSession] = LazyHeap()

    def enter(self, session: MqttSession, number: int) -> None:
        """A member may take a message. One that is in the line already keeps its number, and gets the place of its rank."""
        rank = self._rank(session)
        before = self._line.places.get(session)
        if before is None:
            self._line.put(session, rank, number)
        elif before[0] > rank:
            self._line.put(session, rank, before[1])

    def leave(self, session: MqttSession) -> None:
        """A member takes no message now."""
        self._line.remove(session)

    def first(self) -> Place | None:
        """The place of the member that is first; None: the line is empty."""
        while True:
            place = self._line.first()
            if place is None:
                return None
            rank = self._rank(place[2])
            if rank <= place[0]:
                return place
            self._line.put(place[2], rank, place[1])


@final
class PacketLimits:
    """Maximum Packet Sizes of members, UNLIMITED without one, and the largest of them.

    _members   limit -> number of members that have it
    _largest   limits, the largest first
    """

    __slots__ = ("_largest", "_members")

    def __init__(self) -> None:
        self._members: dict[int, int] = {}
        self._largest: LazyHeap[int] = LazyHeap()

    def add(self, limit: int) -> None:
        """Add the limit of a member."""
        count = self._members.get(limit, 0)
        self._members[limit] = count + 1
        if count == 0:
            self._largest.put(limit, -limit)

    def remove(self, limit: int) -> None:
        """Remove the limit of a member."""
        count = self._members[limit] - 1
        if count:
            self._members[limit] = count
        else:
            del self._members[limit]
            self._largest.remove(limit)

    def largest(self) -> int:
        """The largest limit, 0 without members."""
        first = self._largest.first()
        return 0 if first is None else first[2]
