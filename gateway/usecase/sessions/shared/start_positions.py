"""Start positions of a consumer group that a shared subscription creates: the end of each existing topic.

In topics that are created later the group starts at the first message, as any group without a position does. To
recognise these topics when another member subscribes, even after a restart, two kinds of markers are stored as positions:

    a topic that does not exist   position 0 in its queue 0: the group has subscribed before the topic existed
    ANY_TOPIC                     wall clock in milliseconds of the first subscription that begins with a wildcard
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from gateway.usecase.waiting.fan_in import FanIn

ANY_TOPIC: Final = "+"
"""No topic can have this name."""
Then = Callable[[Failure | None], None]
Ends = list[tuple[str, int, int]]


@final
class Beginnings:
    """Subscriptions of one group that set its start positions, one after the other.

    begun     topics in which the group has begun meanwhile
    waiting   subscriptions that come after the present one
    """

    __slots__ = ("begun", "waiting")

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.waiting: deque[Callable[[], None]] = deque()


@final
class StartPositions:
    """Sets a group's positions to the end of topics that are older than its subscription and where it has no position.

    One subscription of a group waits for the other: the later would find no position either, and a later end.
    """

    __slots__ = ("_clock", "_groups", "_log", "_metadata", "_positions")

    def __init__(self, log: MessageLog, positions: GroupPositions, metadata: Metadata, clock: Clock) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._clock = clock
        self._groups: dict[str, Beginnings] = {}

    def begin(self, group: str, name: str, names: Iterable[str], done: Then, share: str = "") -> None:
        """Set the start positions in `names`, which are existing topics.

        name    topic of the filter; "": the filter begins with a wildcard
        done    called with None, or with the store's failure
        share   group whose positions and marker `group` takes where it has none; "" or `group`: there is no other
        """
        others = self._groups.get(group)
        act = partial(self._begin, group, name, list(names), done, "" if share == group else share)
        if others is not None:
            others.waiting.append(act)
        else:
            self._groups[group] = Beginnings()
            act()

    def _begin(self, group: str, name: str, wanted: list[str], done: Then, share: str) -> None:
        others = self._groups[group]
        names = [each for each in wanted if each not in others.begun]

        def ended(result: Failure | None) -> None:
            if result is None:
                others.begun.update(names)
            if others.waiting:
                self._clock.call_soon(others.waiting.popleft())
            else:
                del self._groups[group]
            done(result)

        def since(result: int | Failure) -> None:
            """`result`: since when the group has subscribed to every new topic, in milliseconds; a Failure: it has not."""
            ends: Ends = []
            if name == "" and isinstance(result, Failure):
                ends.append((ANY_TOPIC, 0, self._clock.wall_ms()))
            decided(result, ends)

        def decided(result: int | Failure, ends: Ends) -> None:
            older = {each: isinstance(result, Failure) or not self._is_younger(each, result) for each in names}
            self._collect(group, share, name, older, ends, ended)

        def taken(result: int | Failure) -> None:
            if isinstance(result, Failure) or name:
                since(result)
            else:
                decided(result, [(ANY_TOPIC, 0, result)])

        def own(result: int | Failure) -> None:
            if isinstance(result, Failure) and share:
                self._positions.offset(share, ANY_TOPIC, 0, taken)
            else:
                since(result)

        self._positions.offset(group, ANY_TOPIC, 0, own)

    def _is_younger(self, name: str, wall_ms: int) -> bool:
        topic = self._metadata.topic(name)
        return topic is not None and topic.created_ms >= wall_ms

    def _collect(self, group: str, share: str, name: str, names: dict[str, bool], ends: Ends, done: Then) -> None:
        """Add the ends of the queues of the topics `names` to `ends`, and commit all as positions of the group.

        `names`: topic -> False when the group begins at its first message, unless `share` has a position there.

        A topic `name` that does not exist gets position 0, the marker that the group begins at its first message.
        """

        def ask(topic: str, then: Callable[[Ends | Failure], None]) -> None:
            known = self._metadata.topic(topic)
            if known is not None:
                self._ends(group, share, topic, max(known.read_queues, known.write_queues), names.get(topic, True), then)
            elif topic == name:
                self._positions.offset(group, name, 0, lambda at: then([(name, 0, 0)] if isinstance(at, Failure) else []))
            else:
                then([])

        def collected(found: dict[tuple[str], Ends], failure: Failure | None) -> None:
            for more in found.values():
                ends.extend(more)
            if ends and failure is None:
                self._positions.commit(group, ends, done)
            else:
                done(failure)

        absent = [name] if name and self._metadata.topic(name) is None else []
        FanIn(ask, collected).start((each,) for each in (*absent, *[each for each in names if names[each] or share]))

    def _ends(
        self, group: str, share: str, topic: str, queues: int, older: bool, done: Callable[[Ends | Failure], None]
    ) -> None:
        """Call `done` with (topic, queue, end) of each queue of a topic; with none when the group has a position there.

        Where `share` has positions they are those of the group, and its other queues begin at their first messages; so do all
        queues when neither has one and the topic is not `older`.

        A queue of which it is not known whether the group has a position keeps it. A Failure: that is not known of any queue.
        """

        inherited: Ends = []

        def ask(queue_id: int, then: Callable[[Ends | None | Failure], None]) -> None:
            def positioned(result: int | Failure) -> None:
                if not isinstance(result, Failure):
                    then(None)
                elif result.code is not ErrorCode.OFFSET_NOT_FOUND:
                    then(result)
                elif share:
                    self._positions.offset(share, topic, queue_id, taken)
                else:
                    self._log.bounds(topic, queue_id, bounded)

            def taken(result: int | Failure) -> None:
                if not isinstance(result, Failure):
                    inherited.append((topic, queue_id, result))
                    then([])
                elif result.code is ErrorCode.OFFSET_NOT_FOUND and not older:
                    then([])
                elif result.code is ErrorCode.OFFSET_NOT_FOUND:
                    self._log.bounds(topic, queue_id, bounded)
                else:
                    then(result)

            def bounded(result: tuple[int, int] | Failure) -> None:
                then([] if isinstance(result, Failure) else [(topic, queue_id, result[1])])

            self._positions.offset(group, topic, queue_id, positioned)

        def asked(found: dict[tuple[int], Ends | None], failure: Failure | None) -> None:
            if failure is not None and not found:
                done(failure)
            elif None in found.values():
                done([])
            else:
                done(inherited or [each for some in found.values() for each in some or ()])

        FanIn(ask, asked).start((queue_id,) for queue_id in range(queues))
