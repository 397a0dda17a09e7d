"""Members of one shared subscription in the order in which they get messages."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, final

from gateway.usecase.sessions.mqtt_session import MqttSession

SPARE: Final = 16
"""Entries of members that have left their place which a line may have in any case."""
UNLIMITED: Final = 1 << 62
"""The Maximum Packet Size of a client that has none."""

Place = tuple[int, int, MqttSession]
"""(rank, number, member): the lowest is first. Numbers are unique."""


@final
class ShareLine:
    """Members that may take a message: those with the lowest rank first, and of equal rank the one that has waited longest.

    `rank` of a member may rise at any time: its place is corrected when it is first. When it falls, `enter` is called.
    Invariant: `_heap` has the places of all members, and at most as many again, and SPARE, that are left.
    """

    __slots__ = ("_heap", "_places", "_rank")

    def __init__(self, rank: Callable[[MqttSession], int]) -> None:
        self._rank = rank
        self._places: dict[MqttSession, Place] = {}
        self._heap: list[Place] = []

    def enter(self, session: MqttSession, number: int) -> None:
        """A member may take a message. One that is in the line already keeps its number, and gets the place of its rank."""
        rank = self._rank(session)
        before = self._places.get(session)
        if before is not None:
            if before[0] <= rank:
                return
            number = before[1]
        place = self._places[session] = (rank, number, session)
        heappush(self._heap, place)
        self._trim()

    def leave(self, session: MqttSession) -> None:
        """A member takes no message now."""
        if self._places.pop(session, None) is not None:
            self._trim()

    def first(self) -> Place | None:
        """The place of the member that is first; None: the line is empty."""
        heap = self._heap
        while heap:
            place = heap[0]
            session = place[2]
            now = self._places.get(session)
            if now is None or now[0] != place[0] or now[1] != place[1]:  # compiled, a tuple of these types has no identity
                heappop(heap)
                continue
            rank = self._rank(session)
            if rank <= place[0]:
                return place
            place = self._places[session] = (rank, place[1], session)
            heapreplace(heap, place)
        return None

    def _trim(self) -> None:
        if len(self._heap) > 2 * len(self._places) + SPARE:
            self._heap = list(self._places.values())
            heapify(self._heap)


@final
class PacketLimits:
    """Maximum Packet Sizes of members, UNLIMITED without one, and the largest of them."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, limit: int) -> None:
        """Add the limit of a member."""
        count = self._counts.get(limit, 0)
        self._counts[limit] = count + 1
        if count == 0:
            heappush(self._heap, -limit)

    def remove(self, limit: int) -> None:
        """Remove the limit of a member."""
        count = self._counts[limit] - 1
        if count:
            self._counts[limit] = count
        else:
            del self._counts[limit]
            if len(self._heap) > 2 * len(self._counts) + SPARE:
                self._heap = [-each for each in self._counts]
                heapify(self._heap)

    def largest(self) -> int:
        """The largest limit, 0 without members."""
        heap = self._heap
        while heap and -heap[0] not in self._counts:
            heappop(heap)
        return -heap[0] if heap else 0
