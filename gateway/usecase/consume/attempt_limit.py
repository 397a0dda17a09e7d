"""The limit of attempts for members that pull: a leased message whose attempts are used up becomes a dead letter."""

from __future__ import annotations

from collections.abc import Callable

from domain import address
from domain.command import Pull
from domain.message.receipt import RETRY_NONE, Receipt
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.topics_and_groups.groups import Groups


class AttemptLimit:
    """Applies the limit to pulls that lease. A pull that only reads counts no attempts and is not passed here."""

    def __init__(self, groups: Groups, dead_letters: DeadLetters) -> None:
        self._groups = groups
        self._dead_letters = dead_letters

    def pulled(self, command: Pull, result: ReadResult, then: Callable[[ReadResult], None]) -> None:
        """Move exhausted messages of `result` to the dead-letter topic, then call `then` with the others.

        A message that could not be moved ends the result before it, and the member asks for it again: a later report of the
        member would settle it without a dead letter, and an ordered group must not go on behind it.
        """
        group = self._groups.find(command.group)
        if group is None or command.topic.startswith(address.RETRY_PREFIX):
            then(result)
            return
        kept: list[bytes] = []
        exhausted: list[ExhaustedMessage] = []
        for data in result.records:
            record = Record(data)
            if record.reconsume_times < group.attempts_max:
                kept.append(data)
                continue
            exhausted.append((command.topic, leased(command, result, record), data))
        if not exhausted:
            then(result)
            return
        left = result.left(kept, "NO_MATCH")

        def moved(blocked_keys: set[bytes]) -> None:
            blocked = [message for message in exhausted if ordering_key(message[2]) in blocked_keys] if blocked_keys else []
            then(_before(left, blocked) if blocked else left)

        store_dead_letters(self._dead_letters, command.group, exhausted, moved)


def _before(left: ReadResult, blocked: list[ExhaustedMessage]) -> ReadResult:
    """The records before the first message that could not be moved; the next offset is that message's."""
    offset = blocked[0][1].queue_offset
    records = [data for data in left.records if Record(data).queue_offset < offset]
    return left.left(records, "EMPTY", offset)


def leased(command: Pull, result: ReadResult, record: Record) -> Receipt:
    """The receipt of a message that a pull has leased."""
    offset = record.queue_offset
    return Receipt(offset, result.pop_ms, 0, 0, RETRY_NONE, "", command.queue_id, offset, record.physical_offset)
