"""The latest (retained) value of each exact path: set by a message, read and removed by path.

It lives in the state space `latest`: key the path in UTF-8, value the record of the message that set it, with queue and
offsets 0 since the value is written in the same commit as the message, before its place is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain import property as properties
from domain import record
from domain.address import is_path
from domain.command import Command, DeleteLatest, Latest
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused, Value
from domain.expiry import has_expired
from domain.message import LOCAL_HOST, RETAIN_DELETE, Message
from domain.ports import Clock
from domain.store_ports import State, StateChange
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import path_in
from gateway.usecase.catalog.policy import NodePolicy
from gateway.usecase.handler import Verb

SPACE: Final = "latest"


def retain(message: Message) -> StateChange:
    """What a message whose `retain` is RETAIN_SET or RETAIN_DELETE does to the latest value of its path.

    To be appended in the same commit with it, once it is placed, stamped and has its UNIQ_KEY. The value's store time is
    the message's born time: the log's own is not known yet.
    """
    path = path_in(message.topic, properties.find(message.properties, properties.ORIGIN_MQTT_TOPIC_START))
    value = None if message.retain == RETAIN_DELETE else record.encode(message, 0, 0, message.born_ms, LOCAL_HOST)
    return StateChange(SPACE, path.encode(), value)


class LatestQuota:
    """`retain` within the bounds of the policy. What is not stored yet does not count, so they may be passed by a little."""

    def __init__(self, state: State, policy: NodePolicy) -> None:
        self._state = state
        self._policy = policy

    def change(self, message: Message) -> StateChange | Failure:
        """What the message does to the latest value of its path; QUOTA where there is no room for one more."""
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
    """A walk through the paths that have a latest value, for those that the filter `pattern` matches, in key order.

    It is made in slices, since there may be a million of them; what is set or removed meanwhile may or may not be seen.
    `next_key` is where it goes on, None when it is over.
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
        """b"": the key matches. Else the first key that may match after it; None when no key does."""
        wanted = self._levels
        levels = key.split(b"/")
        if wanted[0] in (b"+", b"#") and key[:1] == b"$":
            return b"%"
        for at, level in enumerate(wanted):
            if level == b"#":
                return b""
            if at == len(levels):
                # Shorter; `a/#` matches `a`, what else begins like it comes later.
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
    """Latest and DeleteLatest."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Latest, DeleteLatest."""
        return {Latest: self.read, DeleteLatest: self.delete}

    def read(self, connection: ClientConnection, command: Latest) -> None:
        """Answer Value; Refused TOPIC_ILLEGAL when the path is none."""
        if not is_path(command.path):
            connection.answer(
                Refused(command.ticket, Failure(ErrorCode.TOPIC_ILLEGAL, "the path has a wildcard or is too long"))
            )
            return
        connection.answer(Value(command.ticket, value_at(self._state, command.path, self._clock.wall_ms())))

    def delete(self, connection: ClientConnection, command: DeleteLatest) -> None:
        """Remove durably, then answer Done."""
        if not is_path(command.path):
            connection.answer(
                Refused(command.ticket, Failure(ErrorCode.TOPIC_ILLEGAL, "the path has a wildcard or is too long"))
            )
            return

        def done(failure: None | Failure) -> None:
            connection.answer(Done(command.ticket) if failure is None else Refused(command.ticket, failure))

        self._state.put([StateChange(SPACE, command.path.encode(), None)], done)
