"""The limit of attempts for members that pull: a leased message that has used them up goes to the dead-letter topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain import address
from domain.command import Pull
from domain.receipt import RETRY_NONE, Receipt
from domain.record import Record
from domain.store_ports import ReadResult
from gateway.usecase.catalog.groups import Groups
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters


class AttemptLimit:
    """Looks at what a pull has leased; what was only read is never leased, and never looked at."""

    def __init__(self, groups: Groups, dead_letters: DeadLetters) -> None:
        self._groups = groups
        self._dead_letters = dead_letters

    def pulled(self, command: Pull, result: ReadResult, then: Callable[[ReadResult], None]) -> None:
        """`then` gets `result` less the messages that were delivered too often; those are buried, and their leases settled.

        It gets it when they are. One that could not be buried ends it: what the member reports later would settle it unburied,
        and in an ordered group what follows has to wait.
        """
        group = self._groups.find(command.group)
        if group is None or command.topic.startswith(address.RETRY_PREFIX):
            then(result)
            return
        kept: list[bytes] = []
        exhausted: list[ExhaustedMessage] = []
        for data in result.records:
            record = Record(data)
            if record.reconsume_times <= group.retry_max:
                kept.append(data)
                continue
            exhausted.append((command.topic, leased(command, result, record), data))
        if not exhausted:
            then(result)
            return
        left = replace(result, records=kept, status="FOUND" if kept else "NO_MATCH")

        def buried(stuck: set[bytes]) -> None:
            then(_before(left, [message for message in exhausted if ordering_key(message[2]) in stuck]) if stuck else left)

        store_dead_letters(self._dead_letters, command.group, exhausted, buried)


def _before(left: ReadResult, stuck: list[ExhaustedMessage]) -> ReadResult:
    """What stands before the first message that is stuck; the member asks for that one again."""
    offset = stuck[0][1].queue_offset
    records = [data for data in left.records if Record(data).queue_offset < offset]
    return replace(left, records=records, status="FOUND" if records else "EMPTY", next_offset=offset)


def leased(command: Pull, result: ReadResult, record: Record) -> Receipt:
    """What names the lease of a message that a pull has leased."""
    offset = record.queue_offset
    return Receipt(offset, result.pop_ms, 0, 0, RETRY_NONE, "", command.queue_id, offset, record.physical_offset)
