"""Delayed messages of an Apache RocketMQ cluster. Brokers deliver them; this node passes on the properties with the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.delivery import recall as handles
from domain.delivery.recall import RecallHandle
from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.store.store_ports import StateChange
from gateway.brokers.broker_links import Brokers
from gateway.brokers.refusal import refusal
from gateway.brokers.send_request import PRODUCER_GROUP
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

RECALL_MS: Final = 3_000
_REFUSED: Final[Mapping[int, ErrorCode]] = {codes.NO_PERMISSION: ErrorCode.NOT_SUPPORTED}
"""A broker refuses every recall so, unless its setting `recallMessageEnable` is true."""


@final
class RocketmqTimers:
    """`Timers`. A broker also accepts a recall of an unknown id: success means only that the recall was stored."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def recall(self, handle: RecallHandle, done: Callable[[None | Failure], None]) -> None:
        """Timers.recall. NOT_SUPPORTED: the broker's setting `recallMessageEnable` is false, its default."""
        if not self._brokers.address(handle.broker):
            text = f"the recall handle is of broker {handle.broker}, which the cluster does not have"
            done(Failure(ErrorCode.ARGUMENT_ILLEGAL, text))
            return

        def recalled(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                done(answer)
            else:
                done(None if answer.code == codes.SUCCESS else refusal(handle.broker, answer, _REFUSED))

        request = Request(
            codes.RECALL,
            {
                "producerGroup": PRODUCER_GROUP,  # brokers only write it to their log
                "topic": handle.topic,
                "recallHandle": handles.handle(*handle),
            },
        )
        self._brokers.ask(handle.broker, request, recalled, RECALL_MS)

    def accompany(self, change: Callable[[Message], StateChange | None]) -> None:
        """Timers.accompany: does nothing. The broker delivers, and no change of this node's state can go with that."""
