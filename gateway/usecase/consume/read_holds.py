"""Read holds: a reader by offset protects the messages that it still has to read from retention."""

from __future__ import annotations

from domain.command import HoldQueues
from domain.errors import ErrorCode, Failure
from domain.event import Done
from domain.ports import Clock
from domain.store import read_hold
from domain.store.store_ports import State
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.usecase.topics_and_groups.topics import Topics


class ReadHolding:
    """The verb HoldQueues. A new hold also removes those that have ended."""

    def __init__(self, state: State, topics: Topics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self._until_ms = FollowedSpace(state, read_hold.SPACE, lambda value: read_hold.decode(value)[0])
        self.verbs: Verbs = {HoldQueues: self._hold}

    def _hold(self, connection: ClientConnection, command: HoldQueues) -> None:
        failure = self._refusal(command)
        key = read_hold.key_of(command.name, command.topic)
        changes: dict[bytes, bytes | None] = {}
        now = self._clock.wall_ms()
        if failure is None and command.hold_ms == 0:
            changes[key] = None
        elif failure is None:
            until_ms = now + min(command.hold_ms, read_hold.HOLD_MS_MAX)
            changes[key] = read_hold.encode(until_ms, command.offsets)
            holds = self._until_ms.values
            if key not in holds:
                ended = [other for other, ends_ms in holds.items() if ends_ms <= now]
                changes.update(dict.fromkeys(ended))
                if len(holds) - len(ended) >= read_hold.HOLDS_MAX:
                    text = f"there are {read_hold.HOLDS_MAX} read holds already"
                    failure = Failure(ErrorCode.OVERLOADED, text)

        done = answered(connection, Done(command.ticket))
        if failure is not None:
            done(failure)
        else:
            self._until_ms.put(changes, done)

    def _refusal(self, command: HoldQueues) -> Failure | None:
        topic = self._topics.find(command.topic)
        if topic is None or command.epoch not in (-1, topic.created_ms):
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {command.topic} does not exist, or has another epoch")
        if not 0 < len(command.name) <= 64 or not command.name.isascii() or not command.name.isprintable():
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "the name of a hold is 1 to 64 printable characters of ASCII")
        if len(command.offsets) > read_hold.QUEUES_MAX or any(
            not 0 <= queue_id < topic.read_queues or offset < 0 for queue_id, offset in command.offsets.items()
        ):
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, f"a hold names at most {read_hold.QUEUES_MAX} queues of its topic")
        return None
