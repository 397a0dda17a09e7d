"""The limit of attempts for members that pull: a leased message that has used them up goes to the dead-letter topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain import address
from domain.command import Pull
from domain.ports import ReadResult
from domain.receipt import RETRY_NONE, Receipt
from domain.record import Record
from gateway.usecase.burial import Burial, Letter
from gateway.usecase.deadletter import DeadLetters
from gateway.usecase.groups import Groups


class Limited:
    """Looks at what a pull has leased; what was only read is never leased, and never looked at."""

    def __init__(self, groups: Groups, dead_letters: DeadLetters) -> None:
        self._groups = groups
        self._dead_letters = dead_letters

    def pulled(self, command: Pull, result: ReadResult, then: Callable[[ReadResult], None]) -> None:
        """`then` gets `result` less the messages that were delivered too often; those are buried, and their leases settled.

        In an ordered group it gets it when they are, and nothing when one of them could not be: the queue goes on from there.
        """
        group = self._groups.find(command.group)
        if group is None or command.topic.startswith(address.RETRY_PREFIX):
            then(result)
            return
        kept: list[bytes] = []
        letters: list[Letter] = []
        for data in result.records:
            record = Record(data)
            if record.reconsume_times <= group.retry_max:
                kept.append(data)
                continue
            offset = record.queue_offset
            receipt = Receipt(offset, result.pop_ms, 0, 0, RETRY_NONE, "", command.queue_id, offset, record.physical_offset)
            letters.append((command.topic, receipt, data))
        left = replace(result, records=kept, status="FOUND" if kept else "NO_MATCH") if letters else result
        if letters and group.orderly:
            again = replace(result, records=[], status="EMPTY", next_offset=command.offset)
            Burial(lambda stuck: then(again if stuck else left)).run(self._dead_letters, command.group, letters)
            return
        for topic, receipt, data in letters:
            self._dead_letters.bury(command.group, topic, receipt, data, None)
        then(left)
