"""Subscription sync: clients report the lite topics that they are subscribed to, and where their group begins in them."""

from __future__ import annotations

from collections.abc import Callable

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from domain.topic import attribute, lite
from domain.topic.lite import LiteAction, LiteTaken, OffsetOption, OffsetOptionType, SyncSubscription
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.lite import configuration
from gateway.usecase.lite.receive import LiteReceiving
from gateway.usecase.lite.subscriptions import LiteSubscriber, Subscriptions
from gateway.usecase.membership.members import Registry
from gateway.usecase.topics_and_groups.policy import NodePolicy

SILENCE_NS = 180 * limits.SECOND_NS
"""Time without a SyncSubscription after which a subscriber is removed."""
SWEEP_NS = 120 * limits.SECOND_NS
_FIRST = OffsetOption(OffsetOptionType.MIN)


class LiteSubscriptionSync:
    """The verb SyncSubscription. A subscriber is removed with its connection, by its own command, or after SILENCE_NS."""

    def __init__(
        self,
        log: MessageLog,
        positions: GroupPositions,
        metadata: Metadata,
        subscriptions: Subscriptions,
        receiving: LiteReceiving,
        registry: Registry,
        clock: Clock,
        policy: NodePolicy,
    ) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._receiving = receiving
        self._registry = registry
        self._clock = clock
        self._policy = policy
        self._tracked: set[ClientConnection] = set()
        self._counted_until_ns = 0
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)
        self.verbs: Verbs = {SyncSubscription: self._sync}

    def _sync(self, connection: ClientConnection, command: SyncSubscription) -> None:
        if command.action is LiteAction.COMPLETE_REMOVE:
            known = self._subscriptions.find(command.group, command.client_id)
            # A late command of a connection that the client has left does not remove what it subscribed on another.
            if known is not None and (known.connection is connection or known.connection.closed):
                self._leave(known)
            connection.answer(Done(command.ticket))
            return
        group = self._checked(command)
        if not isinstance(group, Failure) and command.action is LiteAction.PARTIAL_ADD and self._is_too_fast():
            group = Failure(ErrorCode.RATE, f"more than {self._policy.lite_syncs_per_s} requests a second add lite topics")
        if isinstance(group, Failure):
            connection.answer(Refused(command.ticket, group))
            return
        subscriber = self._subscriptions.enter(
            connection, command.client_id, command.group, command.topic, configuration.is_wildcard(group)
        )
        subscriber.seen_ns = self._clock.monotonic_ns()
        subscriber.seen_ms = self._clock.wall_ms()
        self._track(connection)
        if subscriber.wildcard:
            self._receiving.find_ready(subscriber)
            connection.answer(Done(command.ticket))
            return
        if command.action is LiteAction.COMPLETE_ADD:
            self._replace(subscriber, group, command.names)
            connection.answer(Done(command.ticket))
            return

        moves = _Moves(answered(connection, Done(command.ticket)))
        if command.action is LiteAction.PARTIAL_ADD:
            for name in command.names:
                self._add(subscriber, group, name, command.start, moves)
        else:
            for name in command.names:
                self._subscriptions.remove(subscriber, name)
                if group.attributes.get(attribute.RESET_UNSUBSCRIBE) == "true":
                    self._move(group.name, command.topic, name, _FIRST, moves)
        moves.finish()

    def _is_too_fast(self) -> bool:
        """Count one request; True, and not counted, when more than lite_syncs_per_s came within a second."""
        rate = self._policy.lite_syncs_per_s
        if rate > 0:
            now = self._clock.monotonic_ns()
            counted_until_ns = max(self._counted_until_ns, now)
            if counted_until_ns - now + limits.SECOND_NS // rate > limits.SECOND_NS:
                return True
            self._counted_until_ns = counted_until_ns + limits.SECOND_NS // rate
        return False

    def _checked(self, command: SyncSubscription) -> Group | Failure:
        """The group of a command that may be carried out, or why it may not."""
        topic = configuration.topic_of(self._metadata, command.topic)
        if isinstance(topic, Failure):
            return topic
        group = configuration.group_of(self._metadata, command.group, command.topic)
        if isinstance(group, Failure):
            return group
        if command.action is LiteAction.PARTIAL_REMOVE:
            return group
        if not group.consume_enable:
            return Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume")
        if configuration.is_wildcard(group):
            if command.action is LiteAction.PARTIAL_ADD:
                return Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} has all lite topics: there is nothing to add")
            return group
        bad = next((name for name in command.names if not lite.is_name(name)), None)
        if bad is not None:
            text = f"lite topic {bad[:80]!r}: 1 to {lite.NAME_CHARS_MAX} of the characters a-z A-Z 0-9 _ -"
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, text)
        return self._within(command, group) or group

    def _within(self, command: SyncSubscription, group: Group) -> Failure | None:
        """QUOTA when the command would subscribe to more lite topics than the client or the node may have, else None."""
        known = self._subscriptions.find(command.group, command.client_id)
        have = known.names if known is not None and known.topic == command.topic else {}
        new = sum(name not in have for name in dict.fromkeys(command.names))
        after = new + (len(have) if command.action is LiteAction.PARTIAL_ADD else len(set(command.names) & have.keys()))
        most = configuration.quota(group)
        if new and 0 <= most < after:
            return Failure(ErrorCode.QUOTA, f"client {command.client_id} would have {after} lite topics, {most} are allowed")
        most = self._policy.lite_subscriptions_max
        if new and self._subscriptions.count + new > most:
            return Failure(ErrorCode.QUOTA, f"lite subscription quota exceeded {most}")
        return None

    def _add(self, subscriber: LiteSubscriber, group: Group, name: str, start: OffsetOption | None, moves: _Moves) -> None:
        new = self._subscriptions.add(subscriber, name)
        if configuration.is_exclusive(group):
            for other in self._subscriptions.of(subscriber.topic, name, group.name):
                if other is not subscriber:
                    self._take_away(other, name)
                    if group.attributes.get(attribute.RESET_EXCLUSIVE) == "true" and start is None:
                        start = _FIRST
        if start is not None and start.kind is not OffsetOptionType.LAST:
            self._move(group.name, subscriber.topic, name, start, moves)
        if new or start is not None:
            moves.after(lambda: self._receiving.ready(subscriber, name))

    def _replace(self, subscriber: LiteSubscriber, group: Group, names: list[str]) -> None:
        """Make `names` all that a client is subscribed to.

        In an exclusive group a lite topic that another member has stays with that member, and the client is notified again.
        """
        wanted = dict.fromkeys(names)
        for name in [name for name in subscriber.names if name not in wanted]:
            self._subscriptions.remove(subscriber, name)
        exclusive = configuration.is_exclusive(group)
        for name in wanted:
            if name in subscriber.names:
                continue
            if exclusive and self._subscriptions.of(subscriber.topic, name, group.name):
                self._notify(subscriber, name)
                continue
            self._subscriptions.add(subscriber, name)
            self._receiving.ready(subscriber, name)

    def _take_away(self, other: LiteSubscriber, name: str) -> None:
        self._subscriptions.remove(other, name)
        self._notify(other, name)

    def _notify(self, subscriber: LiteSubscriber, name: str) -> None:
        """Notify a client that another member has `name` now: on its own connection, or the proxy's that subscribed for it."""
        member = self._registry.members(subscriber.group).get(subscriber.client_id)
        connection = subscriber.connection if member is None else member.connection
        connection.answer(LiteTaken(None, subscriber.client_id, subscriber.group, name))

    def _move(self, group: str, topic: str, name: str, start: OffsetOption, moves: _Moves) -> None:
        """Set the position of `group` in the queue of one lite topic."""
        queue = lite.queue_name(topic, name)

        def commit(offset: int) -> None:
            self._positions.commit(group, [(queue, 0, offset)], moves.began())

        def bounded(bounds: tuple[int, int] | Failure) -> None:
            first, end = (0, 0) if isinstance(bounds, Failure) else bounds
            if start.kind is OffsetOptionType.TAIL:
                self._positions.offset(group, queue, 0, lambda at: commit(_tail(at, first, end, start.value)))
            elif start.kind is OffsetOptionType.TIME:
                self._log.search(topic=queue, queue_id=0, timestamp_ms=start.value, upper=False, done=searched)
            else:
                wanted = {OffsetOptionType.MIN: first, OffsetOptionType.MAX: end}.get(start.kind, start.value)
                commit(min(max(wanted, first), end))

        def searched(found: int | Failure) -> None:
            if not isinstance(found, Failure):
                commit(found)

        self._log.bounds(queue, 0, bounded)

    def _leave(self, subscriber: LiteSubscriber) -> None:
        """Remove a subscriber. Lite topics that were ready for it become ready for the other members that have them."""
        ready = [] if subscriber.wildcard else list(subscriber.ready)
        self._subscriptions.leave(subscriber)
        for name in ready:
            for other in self._subscriptions.of(subscriber.topic, name, subscriber.group):
                self._receiving.ready(other, name)

    def _track(self, connection: ClientConnection) -> None:
        if connection not in self._tracked:
            self._tracked.add(connection)
            connection.on_close.append(lambda: self._disconnected(connection))

    def _disconnected(self, connection: ClientConnection) -> None:
        self._tracked.discard(connection)
        for subscriber in self._subscriptions.all():
            if subscriber.connection is connection:
                self._leave(subscriber)

    def _sweep(self) -> None:
        now = self._clock.monotonic_ns()
        for subscriber in self._subscriptions.all():
            if now - subscriber.seen_ns > SILENCE_NS:
                self._leave(subscriber)
        self._clock.call_at(now + SWEEP_NS, self._sweep)


def _tail(position: int | Failure, first: int, end: int, count: int) -> int:
    """The offset `count` before the position of a group, or before the end when it has none; within the queue."""
    at = end if isinstance(position, Failure) else position
    return min(max(at - max(count, 0), first), end)


class _Moves:
    """The positions that one command moves. The command is answered when all of them are durable, or have failed."""

    def __init__(self, done: Callable[[None | Failure], None]) -> None:
        self._done = done
        self._left = 1
        self._failure: Failure | None = None
        self._then: list[Callable[[], None]] = []

    def began(self) -> Callable[[None | Failure], None]:
        """Wait for one more position. Returns the function to call with its result."""
        self._left += 1
        return self._moved

    def after(self, then: Callable[[], None]) -> None:
        """Call `then` after the answer."""
        self._then.append(then)

    def finish(self) -> None:
        """No more positions follow: answer as soon as all are moved."""
        self._moved(None)

    def _moved(self, result: None | Failure) -> None:
        self._failure = self._failure or result
        self._left -= 1
        if self._left == 0:
            self._done(self._failure)
            for then in self._then:
                then()
