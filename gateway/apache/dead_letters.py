"""Dead letters of a cluster: its broker copies the message (CONSUMER_SEND_MSG_BACK), then the lease is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.store.store_ports import Leases
from gateway.apache.pop import request as requests
from gateway.brokers.broker_links import Brokers
from gateway.brokers.refusal import refusal
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

SEND_BACK_MS: Final = 3_000
_REFUSED: Final[Mapping[int, ErrorCode]] = {codes.SYSTEM_ERROR: ErrorCode.RECEIPT_INVALID}
"""The broker has no message at that place of its log."""


@final
class RocketmqDeadLetters:
    """`DeadLetterMoves`."""

    def __init__(self, brokers: Brokers, leases: Leases) -> None:
        self._brokers = brokers
        self._leases = leases

    def move(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        record: bytes | None,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """DeadLetterMoves.move. RECEIPT_INVALID: the receipt does not say where in the log the message is."""

        def notify(result: None | Failure) -> None:
            if done is not None:
                done(result)

        if receipt.physical_offset < 0:
            notify(Failure(ErrorCode.RECEIPT_INVALID, "the receipt has no offset in the log of its broker"))
            return

        def settled(result: list[Failure | None] | Failure) -> None:
            notify(result if isinstance(result, Failure) else None)

        def copied(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                notify(answer)
            elif answer.code != codes.SUCCESS:
                notify(refusal(receipt.broker, answer, _REFUSED))
            else:
                self._leases.settle(group, requests.real_topic(group, topic, receipt), [receipt], settled)

        message_id = "" if record is None else properties.text(Record(record).properties, properties.UNIQ_KEY)
        request = requests.send_back_to_dead_letters(group, topic, receipt, message_id)
        self._brokers.ask(receipt.broker, request, copied, SEND_BACK_MS)
