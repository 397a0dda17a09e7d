"""The latest (retained) value of each exact path: set by a message, read and removed by path.

It is a value of the state space `latest`: the key is the path in UTF-8, the value is the record of the message that set it.
Queue and offsets of that record are 0: it is written in the same commit as the message, before its place is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain import property as properties
from domain import record
from domain.address import is_path
from domain.command import Command, DeleteLatest, QueryLatest
from domain.delivery.expiry import has_expired, is_over
from domain.errors import ErrorCode, Failure
from domain.event import Done, LatestValue, Refused
from domain.message import LOCAL_HOST, RETAIN_DELETE, RETAIN_SET, SYS_PREPARED, Message
from domain.ports import Clock
from domain.store_ports import State, StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import path_in
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.handler import Verb

SPACE: Final = "latest"
_SET: Final = "set"
_REMOVE: Final = "remove"
"""Values of HG_LATEST, the mark of a delayed or half message that is to set or remove the latest value."""


def retain(message: Message) -> StateChange:
    """The state change of a message whose `retain` is RETAIN_SET or RETAIN_DELETE: the new latest value of its path.

    It belongs in the same commit as the message, which must have its queue, its born time and its UNIQ_KEY. The store time of
    the value is the message's born time, since the store has not stamped it yet.
    """
    path = path_in(message.topic, properties.find(message.properties, properties.ORIGIN_MQTT_TOPIC_START))
    value = None if message.retain == RETAIN_DELETE else record.encode(message, 0, 0, message.born_ms, LOCAL_HOST)
    return StateChange(SPACE, path.encode(), value)


class LatestQuota:
    """`retain` within the bounds of the policy, also at the delivery of delayed messages and the commit of transactions.

    Values that are not stored yet are not counted, so the bounds may be exceeded by those of one commit.

    refused   delayed or half messages that were delivered without becoming the latest value, since there was no room for it
    """

    def __init__(self, state: State, policy: NodePolicy, clock: Clock) -> None:
        self._state = state
        self._policy = policy
        self._clock = clock
        self.refused = 0

    def at_send(self, message: Message) -> StateChange | Failure | None:
        """The state change that goes with the message; None for one that is delayed, or half of a transaction.

        A mark of such a message keeps its `retain` until it is delivered, or committed.

        Failure: QUOTA when there is no room for one more value.
        """
        change = self.change(message)
        if isinstance(change, Failure):
            return change
        if not properties.has_delay(message.properties) and not message.sys_flag & SYS_PREPARED:
            return change
        mark = _REMOVE if message.retain == RETAIN_DELETE else _SET
        message.properties = properties.with_values(message.properties, {properties.HG_LATEST: mark})
        return None

    def at_delivery(self, message: Message) -> StateChange | None:
        """The state change that goes with the delivery of a delayed message, or the commit of a half message.

        The mark of `at_send` is removed.

        None when it has no mark, has expired, or finds no room.
        """
        mark = properties.find(message.properties, properties.HG_LATEST_START)
        if not mark:
            return None
        message.properties = properties.without(message.properties, (properties.HG_LATEST,))
        message.retain = RETAIN_DELETE if mark == _REMOVE.encode() else RETAIN_SET
        if is_over(message.properties, self._clock.wall_ms()):
            return None
        change = self.change(message)
        if isinstance(change, Failure):
            self.refused += 1
            return None
        return change

    def change(self, message: Message) -> StateChange | Failure:
        """The state change of the message, as `retain`. Failure: QUOTA when there is no room for one more value."""
        change = retain(message)
        value = change.value
        if value is None:
            return change
        count, size = self._state.size(SPACE)
        policy = self._policy
        if count < policy.latest_max and size + len(change.key) + len(value) <= policy.latest_bytes_max:
            return change
        old = self._state.get(SPACE, change.key)
        if old is not None and (len(value) <= len(old) or size - len(old) + len(value) <= policy.latest_bytes_max):
            return change
        text = f"{count} latest values of {size} bytes are kept, {policy.latest_max} of {policy.latest_bytes_max} are allowed"
        return Failure(ErrorCode.QUOTA, text)


def value_at(state: State, path: str, wall_ms: int) -> bytes | None:
    """The record of the latest value of `path`; None when there is none or it has expired."""
    value = state.get(SPACE, path.encode())
    return None if value is None or has_expired(value, wall_ms) else value


@final
class LatestScan:
    """A scan of the paths that have a latest value, for those that a path filter matches, in key order.

    It is made in slices, since there may be a million paths. Values that are set or removed meanwhile may be missed.

    pattern    the path filter
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

    def slice(self, most: int) -> list[str]:
        """Matches among the next `most` paths at most."""
        if self.next_key is None:
            return []
        if self._prefix == self.pattern.encode():
            self.next_key = None
            return [self.pattern] if self._state.get(SPACE, self._prefix) is not None else []
        keys = self._state.keys(SPACE, self._prefix, self.next_key, most)
        found: list[str] = []
        skip = b""
        for key in keys:
            if key < skip:
                continue
            after = self._after(key)
            if after is None:
                self.next_key = None
                return found
            if not after:
                found.append(key.decode())
            skip = after
        self.next_key = None if len(keys) < most else max(skip, keys[-1] + b"\x00")
        return found

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


class LatestValues:
    """The verbs Latest and DeleteLatest."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Latest, DeleteLatest."""
        return {QueryLatest: self.read, DeleteLatest: self.delete}

    def read(self, connection: ClientConnection, command: QueryLatest) -> None:
        """Answer Value; Refused TOPIC_ILLEGAL when the path has a wildcard or is too long."""
        if not is_path(command.path):
            connection.answer(
                Refused(command.ticket, Failure(ErrorCode.TOPIC_ILLEGAL, "the path has a wildcard or is too long"))
            )
            return
        connection.answer(LatestValue(command.ticket, value_at(self._state, command.path, self._clock.wall_ms())))

    def delete(self, connection: ClientConnection, command: DeleteLatest) -> None:
        """Remove a value durably, then answer Done. Refused TOPIC_ILLEGAL as `read`, or what the store refused."""
        if not is_path(command.path):
            connection.answer(
                Refused(command.ticket, Failure(ErrorCode.TOPIC_ILLEGAL, "the path has a wildcard or is too long"))
            )
            return

        def done(failure: None | Failure) -> None:
            connection.answer(Done(command.ticket) if failure is None else Refused(command.ticket, failure))

        self._state.put([StateChange(SPACE, command.path.encode(), None)], done)
