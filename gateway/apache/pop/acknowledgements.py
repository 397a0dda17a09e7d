"""Acknowledgements to brokers: those of one turn of the loop share one request per broker (BATCH_ACK_MESSAGE)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message.receipt import ORDERED_REVIVE_QUEUE, Receipt
from domain.ports import Clock
from gateway.apache.pop import request as requests
from gateway.brokers.broker_links import Brokers
from gateway.brokers.refusal import refusal
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

BATCH_MAX: Final = 1_024
"""Acknowledgements in one request at most."""
ACK_MS: Final = 3_000

REFUSED: Final[Mapping[int, ErrorCode]] = {
    codes.NO_MESSAGE: ErrorCode.RECEIPT_INVALID,
    codes.MESSAGE_ILLEGAL: ErrorCode.RECEIPT_INVALID,
}
"""Codes of ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME for an unknown offset or queue."""

Outcome = Callable[[Failure | None], None]


@final
class _Ack:
    """One lease to settle."""

    __slots__ = ("done", "group", "receipt", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt, done: Outcome) -> None:
        self.group = group
        self.topic = topic
        self.receipt = receipt
        self.done = done


@final
class Acknowledgements:
    """Collects and sends acknowledgements. Those of ordered groups are sent singly, since a batch has a single answer.

    batches   number of BATCH_ACK_MESSAGE requests sent
    """

    def __init__(self, brokers: Brokers, clock: Clock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._waiting: dict[str, list[_Ack]] = {}
        self._alone: set[str] = set()
        self.batches = 0

    def add(self, group: str, topic: str, receipt: Receipt, done: Outcome) -> None:
        """Settle one lease at its broker. `done` gets None, or the failure."""
        ack = _Ack(group, topic, receipt, done)
        if receipt.revive_queue == ORDERED_REVIVE_QUEUE or not requests.batchable(receipt):
            self._send_one(receipt.broker, ack)
            return
        if not self._waiting:
            self._clock.call_soon(self._flush)
        self._waiting.setdefault(receipt.broker, []).append(ack)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for broker, acks in waiting.items():
            if len(acks) == 1 or broker in self._alone:
                for ack in acks:
                    self._send_one(broker, ack)
            else:
                for at in range(0, len(acks), BATCH_MAX):
                    self._send(broker, acks[at : at + BATCH_MAX])

    def _send(self, broker: str, acks: list[_Ack]) -> None:
        self.batches += 1
        request = requests.acknowledge_batch(broker, [(ack.group, ack.topic, ack.receipt) for ack in acks])
        self._brokers.ask(broker, request, partial(self._settled_all, broker, acks), ACK_MS)

    def _settled_all(self, broker: str, acks: list[_Ack], answer: Frame | Failure) -> None:
        if isinstance(answer, Frame) and answer.code == codes.NOT_SUPPORTED:
            # Brokers before 5.1 accept single acknowledgements only.
            self._alone.add(broker)
            for ack in acks:
                self._send_one(broker, ack)
            return
        failure = _failure(broker, answer)
        for ack in acks:
            ack.done(failure)

    def _send_one(self, broker: str, ack: _Ack) -> None:
        request = requests.acknowledge(ack.group, ack.topic, ack.receipt)
        self._brokers.ask(broker, request, lambda answer: ack.done(_failure(broker, answer)), ACK_MS)


def _failure(broker: str, answer: Frame | Failure) -> Failure | None:
    if isinstance(answer, Failure):
        return answer
    return None if answer.code == codes.SUCCESS else refusal(broker, answer, REFUSED)
