"""The latest (retained) value of each exact path: set by a message, read and removed by path.

It is a value of the state space `latest`: the key is the path in UTF-8, the value is the record of the message that set it.
Queue and offsets of that record are 0: it is written in the same commit as the message, before its place is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.address import is_path, path_in
from domain.command import DeleteLatest, QueryLatest
from domain.delivery.expiry import has_expired, is_over
from domain.delivery.routed import RoutedRecord
from domain.errors import ErrorCode, Failure
from domain.event import Done, LatestValue, Refused
from domain.message import property as properties
from domain.message import record
from domain.message.message import LOCAL_HOST, RETAIN_DELETE, RETAIN_SET, SYS_PREPARED, Message
from domain.ports import Clock
from domain.store.store_ports import SpaceLimit, State, StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.read_turns import ReadTurns

SPACE: Final = "latest"
_SET: Final = "set"
_REMOVE: Final = "remove"
"""Values of HG_LATEST, the mark of a delayed or half message that is to set or remove the latest value."""
LIVE_VALUES_MAX: Final = 4_096
"""Paths that are remembered for one session, the newest ones."""
RACE_MS: Final = 60_000
"""A message that was sent so long before a subscription is not given live to it."""
_ILLEGAL: Final = Failure(ErrorCode.TOPIC_ILLEGAL, "the path has a wildcard or is too long")


def retain(message: Message) -> StateChange:
    """The state change of a message whose `retain` is RETAIN_SET or RETAIN_DELETE: the new latest value of its path.

    It belongs in the same commit as the message, which must have its queue, its born time and its UNIQ_KEY. The store time of
    the value is the message's born time, since the store has not stamped it yet.
    """
    path = path_in(message.topic, properties.find(message.properties, properties.ORIGIN_MQTT_TOPIC_START))
    value = None if message.retain == RETAIN_DELETE else record.encode(message, 0, 0, message.born_ms, LOCAL_HOST)
    return StateChange(SPACE, path.encode(), value)


class LatestChanges:
    """`retain` within the bounds of the policy, also at the delivery of delayed messages and the commit of transactions."""

    def __init__(self, policy: NodePolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock

    def at_send(self, message: Message) -> StateChange | None:
        """The state change that goes with the message; None for one that is delayed, or half of a transaction.

        A mark of such a message keeps its `retain` until it is delivered, or committed.
        """
        if not properties.has_delay(message.properties) and not message.sys_flag & SYS_PREPARED:
            return self._change(message)
        mark = _REMOVE if message.retain == RETAIN_DELETE else _SET
        message.properties = properties.with_values(message.properties, {properties.HG_LATEST: mark})
        return None

    def at_delivery(self, message: Message) -> StateChange | None:
        """The state change that goes with the delivery of a delayed message, or the commit of a half message.

        The mark of `at_send` is removed. None when it has no mark, or has expired.
        """
        mark = properties.find(message.properties, properties.HG_LATEST_START)
        if not mark:
            return None
        message.properties = properties.without(message.properties, (properties.HG_LATEST,))
        message.retain = RETAIN_DELETE if mark == _REMOVE.encode() else RETAIN_SET
        return None if is_over(message.properties, self._clock.wall_ms()) else self._change(message)

    def _change(self, message: Message) -> StateChange:
        change = retain(message)
        change.within = SpaceLimit(self._policy.latest_max, self._policy.latest_bytes_max)
        return change


def read_value(state: State, path: str, clock: Clock, done: Callable[[bytes | None | Failure], None]) -> None:
    """The record of the latest value of `path`; None when there is none or it has expired."""

    def got(value: bytes | None | Failure) -> None:
        gone = isinstance(value, bytes) and has_expired(value, clock.wall_ms())
        done(None if gone else value)

    state.get(SPACE, path.encode(), got)


@final
class LatestScan:
    """A scan of the latest values, for those whose paths a path filter matches, in key order.

    It is made in slices, since there may be a million paths. Values that are set or removed meanwhile may be missed.

    next_key   the key at which the next slice begins, None when the scan is complete
    """

    __slots__ = ("_levels", "_prefix", "_state", "next_key", "pattern")

    def __init__(self, state: State, pattern: str) -> None:
        self._state = state
        self.pattern = pattern
        self._levels = pattern.encode().split(b"/")
        cut = min((at for at in (pattern.find("+"), pattern.find("#")) if at >= 0), default=len(pattern))
        # `a/#` also matches `a`, so the prefix ends before the slash.
        self._prefix = (pattern[:cut].removesuffix("/") if pattern[cut:] == "#" else pattern[:cut]).encode()
        self.next_key: bytes | None = self._prefix

    def slice(self, most: int, done: Callable[[list[str] | Failure], None]) -> None:
        """The paths that match among the next `most` paths at most. One slice at a time."""
        start = self.next_key
        if start is None:
            done([])
        else:
            exact = self._prefix == self.pattern.encode()
            limit = 1 if exact else most
            self._state.keys(SPACE, self._prefix, start, limit, lambda keys: self._found(keys, limit, exact, done))

    def _found(self, keys: list[bytes] | Failure, most: int, exact: bool, done: Callable[[list[str] | Failure], None]) -> None:
        if isinstance(keys, Failure):
            done(keys)
            return
        if exact:
            self.next_key = None
            done([self.pattern] if keys == [self._prefix] else [])
            return
        found: list[str] = []
        skip = b""
        for key in keys:
            if key < skip:
                continue
            after = self._after(key)
            if after is None:
                self.next_key = None
                done(found)
                return
            if not after:
                found.append(key.decode())
            skip = after
        self.next_key = None if len(keys) < most else max(skip, keys[-1] + b"\x00")
        done(found)

    def _after(self, key: bytes) -> bytes | None:
        """b"" when the key matches; else the first key behind it that may match, None when no key may."""
        wanted = self._levels
        levels = key.split(b"/")
        if wanted[0] in (b"+", b"#") and key[:1] == b"$":
            return b"%"
        for at, level in enumerate(wanted):
            if level == b"#":
                return b""
            if at == len(levels):
                # The path is shorter than the filter. Paths that begin with it come later.
                return key + b"\x00"
            if level == b"+" or level == levels[at]:
                continue
            before = b"".join(part + b"/" for part in levels[:at])
            if before + level > key:
                return before + level
            if before + level + b"/" > key:
                return before + level + b"/"
            return before[:-1] + b"0" if at else None
        if len(levels) == len(wanted):
            return b""
        return b"/".join(levels[: len(wanted)]) + b"0"


@final
class LiveValues:
    """The paths whose value a message has set that a session was given live, since the first of its scans began.

    A message that is published while its path is subscribed is the value of the path, and is delivered live as well. The live
    delivery counts, since it belongs to a position in the log. The value is left out (MQTT 5.0, 4.3.3), and so is an older one,
    which was read before: it would come behind the newer one.

    number    of the next message: a scan leaves out the values of paths with one behind its own begin
    coming    scans of subscriptions that are not answered yet
    _numbers  number of the newest message, by hash of the path
    """

    __slots__ = ("_numbers", "coming", "number")

    def __init__(self) -> None:
        self.number = self.coming = 0
        self._numbers: dict[int, int] = {}

    def add(self, routed: RoutedRecord) -> None:
        """A message is given to the session."""
        if properties.find(routed.stored, properties.MQTT_RETAIN_START) != b"true":
            return
        key = hash(routed.path)
        self._numbers.pop(key, None)
        if len(self._numbers) >= LIVE_VALUES_MAX:
            del self._numbers[next(iter(self._numbers))]
        self._numbers[key] = self.number
        self.number += 1

    def has(self, path: str, since: int) -> bool:
        """True when a message that is the value of the path or a newer one was given as number `since` or later."""
        return self._numbers.get(hash(path), -1) >= since


class LatestValues:
    """The verbs Latest and DeleteLatest."""

    def __init__(self, state: State, clock: Clock, reads: ReadTurns, removed: Sequence[Callable[[str], None]]) -> None:
        """`reads` shares the turns between reads of messages. Each of `removed` is called with each path whose value was
        removed by DeleteLatest."""
        self._removed = removed
        self._state = state
        self._clock = clock
        self._reads = reads
        self._held = (0, 0)
        self.verbs: Verbs = {QueryLatest: self.read, DeleteLatest: self.delete}

    def read(self, connection: ClientConnection, command: QueryLatest) -> None:
        """Answer Value; Refused TOPIC_ILLEGAL when the path has a wildcard or is too long."""
        if not is_path(command.path):
            connection.answer(Refused(command.ticket, _ILLEGAL))
        elif self._reads.crowded:
            self._reads.add(connection, partial(self._read, connection, command))
        else:
            self._read(connection, command)

    def _read(self, connection: ClientConnection, command: QueryLatest) -> None:
        def got(value: bytes | None | Failure) -> None:
            if isinstance(value, Failure):
                connection.answer(Refused(command.ticket, value))
            else:
                self._reads.count(0 if value is None else len(value))
                connection.answer(LatestValue(command.ticket, value))

        read_value(self._state, command.path, self._clock, got)

    def delete(self, connection: ClientConnection, command: DeleteLatest) -> None:
        """Remove a value durably, then answer Done. Refused TOPIC_ILLEGAL as `read`, or with the failure of the store."""
        if not is_path(command.path):
            connection.answer(Refused(command.ticket, _ILLEGAL))
            return

        def done(failure: None | Failure) -> None:
            for removed in self._removed if failure is None else ():
                removed(command.path)
            connection.answer(Done(command.ticket) if failure is None else Refused(command.ticket, failure))

        self._state.put([StateChange(SPACE, command.path.encode(), None)], done)

    def held(self) -> tuple[int, int]:
        """(values, bytes of paths and values), as the store has answered last; asks it again."""
        self._state.size(SPACE, self._counted)
        return self._held

    def _counted(self, size: tuple[int, int] | Failure) -> None:
        if not isinstance(size, Failure):
            self._held = size
