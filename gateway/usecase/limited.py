"""The limit of attempts for members that pull: a leased message that has used them up goes to the dead-letter topic."""

from __future__ import annotations

from dataclasses import replace

from domain import address
from domain.command import Pull
from domain.ports import ReadResult
from domain.receipt import RETRY_NONE, Receipt
from domain.record import Record
from gateway.usecase.deadletter import DeadLetters
from gateway.usecase.groups import Groups


class Limited:
    """Looks at what a pull has leased; what was only read is never leased, and never looked at."""

    def __init__(self, groups: Groups, dead_letters: DeadLetters) -> None:
        self._groups = groups
        self._dead_letters = dead_letters

    def pulled(self, command: Pull, result: ReadResult) -> ReadResult:
        """`result` less the messages that were delivered too often; those are buried, and their leases settled."""
        group = self._groups.find(command.group)
        if group is None or command.topic.startswith(address.RETRY_PREFIX):
            return result
        kept: list[bytes] = []
        for data in result.records:
            record = Record(data)
            if record.reconsume_times <= group.retry_max:
                kept.append(data)
                continue
            offset = record.queue_offset
            receipt = Receipt(offset, result.pop_ms, 0, 0, RETRY_NONE, "", command.queue_id, offset, record.physical_offset)
            self._dead_letters.bury(command.group, command.topic, receipt, data, None)
        if len(kept) == len(result.records):
            return result
        return replace(result, records=kept, status="FOUND" if kept else "NO_MATCH")
