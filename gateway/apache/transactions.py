"""Transactions and recalls of a cluster: END_TRANSACTION to the broker of the half message, check-backs from brokers.

A broker knows a half message by its offsets, a client by its id: the node that has stored it, or was asked about it last,
remembers both. Another node learns them by the next check-back.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, final

from domain.delivery import recall as handles
from domain.delivery.recall import RecallHandle
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record, check
from domain.store.store_ports import StateChange
from domain.transaction import TransactionCheckPolicy, TransactionListener
from gateway.brokers.broker_links import Brokers
from gateway.brokers.empty_body import restored
from gateway.brokers.refusal import refusal
from gateway.brokers.send_request import PRODUCER_GROUP
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

HALVES_MAX: Final = 200_000
"""Half messages that are remembered, the newest ones."""
DECIDED_MAX: Final = 50_000
"""Decisions that are remembered, so that repeating one does nothing: brokers would store the message once more."""
END_MS: Final = 3_000
COMMIT_FLAG: Final = 8
ROLLBACK_FLAG: Final = 12
OFFSET_DIGITS_MAX: Final = 19

log = logging.getLogger("headgate.rocketmq")
RECALL_MS: Final = 3_000
_REFUSED: Final[Mapping[int, ErrorCode]] = {codes.NO_PERMISSION: ErrorCode.NOT_SUPPORTED}
"""A broker refuses every recall so, unless its setting `recallMessageEnable` is true."""


@final
class RocketmqTimers:
    """`Timers`. A broker delivers. It also accepts a recall of an unknown id: success means only that the recall was stored."""

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


class HalfMessage(NamedTuple):
    """A half message that is not decided.

    topic            the topic that it is for
    queue_offset     offset in the queue of half messages
    physical_offset  offset in the log of the broker
    is_checked       True: a broker has asked about it
    """

    group: str
    topic: str
    broker: str
    queue_offset: int
    physical_offset: int
    is_checked: bool


@final
class RocketmqTransactions:
    """`Transactions`. `check_policy` is that of a node with a store of its own: brokers have their own settings."""

    def __init__(self, brokers: Brokers, on_producer: Callable[[str], None]) -> None:
        """`on_producer`: called with each producer group that has a producer here: brokers ask only who has said that."""
        self.check_policy = TransactionCheckPolicy()
        self._on_producer = on_producer
        self._brokers = brokers
        self._listeners: list[TransactionListener] = []
        self._halves: OrderedDict[str, HalfMessage] = OrderedDict()
        self._decided: OrderedDict[str, bool] = OrderedDict()
        brokers.serve(codes.CHECK_TRANSACTION, lambda broker, frame, _: self.checked(broker, frame))

    def listen(self, listener: TransactionListener) -> None:
        """Transactions.listen."""
        self._listeners.append(listener)

    def present(self, group: str) -> None:
        """Transactions.present: brokers may ask this node about half messages of `group`."""
        self._on_producer(group)

    def half_stored(
        self, group: str, message_id: str, topic: str, broker: str, queue_offset: int, physical_offset: int
    ) -> None:
        """Remember a half message that a broker has stored, until it is decided."""
        self._remember(message_id, HalfMessage(group, topic, broker, queue_offset, physical_offset, False))

    def _remember(self, message_id: str, half: HalfMessage) -> None:
        self._halves[message_id] = half
        self._halves.move_to_end(message_id)
        if len(self._halves) > HALVES_MAX:
            self._halves.popitem(last=False)

    def checked(self, broker: str, frame: Frame) -> None:
        """CHECK_TRANSACTION_STATE: a broker asks for the outcome of a half message, whose record is the body."""
        fields = frame.fields() or {}
        data = frame.body
        offsets = (fields.get("tranStateTableOffset", ""), fields.get("commitLogOffset", ""))
        if not all(each.isascii() and each.isdigit() and len(each) <= OFFSET_DIGITS_MAX for each in offsets) or not check(data):
            log.warning("broker %s asks about a transaction with a message that cannot be read", broker)
            return
        data = restored(data)
        record = Record(data)
        stored = record.properties
        group = properties.text(stored, properties.PGROUP)
        message_id = properties.text(stored, properties.UNIQ_KEY) or fields.get("msgId", "")
        if not group or not message_id:
            log.warning("broker %s asks about a transaction without producer group or id", broker)
            return
        # A check moves the half message: its offsets are new ones.
        half = HalfMessage(group, record.topic, broker, int(offsets[0]), int(offsets[1]), True)
        if message_id in self._decided:
            self._discard(message_id, half)
            return
        self._remember(message_id, half)
        times = properties.text(stored, properties.CHECK_TIMES)
        count = int(times) if times.isascii() and times.isdigit() and len(times) < 9 else 1
        for listener in self._listeners:
            listener.undecided(group, data, count)

    def end(
        self,
        group: str,
        message_id: str,
        offset: int,
        position: int,
        commit: bool,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Transactions.end. MESSAGE_NOT_FOUND too when another node has stored it and no broker has asked about it here."""
        half = self._halves.get(message_id)
        decided = self._decided.get(message_id)
        if half is not None and decided is not None:
            del self._halves[message_id]
            self._discard(message_id, half)
        if half is None or decided is not None:
            if decided is commit:
                _notify(done, None)
                return
            text = f"no undecided transaction {message_id} is known here: its broker asks for the outcome again"
            _notify(done, Failure(ErrorCode.MESSAGE_NOT_FOUND, text))
            return
        if half.group != group:
            _notify(done, Failure(ErrorCode.NOT_ALLOWED, f"transaction {message_id} is of another producer group"))
            return
        request = _ending(message_id, half, commit)
        self._brokers.ask(half.broker, request, partial(self._ended, message_id, half, commit, done), END_MS)

    def _discard(self, message_id: str, half: HalfMessage) -> None:
        """Roll back a copy that a broker made of a half message before it saw the decision, which has been carried out.

        To commit it would store the message once more.
        """
        self._brokers.oneway(half.broker, _ending(message_id, half, False))

    def _ended(
        self,
        message_id: str,
        half: HalfMessage,
        commit: bool,
        done: Callable[[None | Failure], None] | None,
        answer: Frame | Failure,
    ) -> None:
        if isinstance(answer, Failure):
            _notify(done, answer)
        elif answer.code != codes.SUCCESS:
            _notify(done, refusal(half.broker, answer))
        else:
            if self._halves.get(message_id) == half:
                del self._halves[message_id]
            self._decided[message_id] = commit
            if len(self._decided) > DECIDED_MAX:
                self._decided.popitem(last=False)
            _notify(done, None)

    def topic(self, group: str, message_id: str, offset: int, done: Callable[[str | Failure], None]) -> None:
        """Transactions.topic."""
        half = self._halves.get(message_id)
        done("" if half is None or half.group != group else half.topic)


def _ending(message_id: str, half: HalfMessage, commit: bool) -> Request:
    return Request(
        codes.END_TRANSACTION,
        {
            "topic": half.topic,
            "producerGroup": half.group,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset),
            "commitOrRollback": str(COMMIT_FLAG if commit else ROLLBACK_FLAG),
            "fromTransactionCheck": "true" if half.is_checked else "false",
            "msgId": message_id,
            "transactionId": message_id,
        },
    )


def _notify(done: Callable[[None | Failure], None] | None, result: None | Failure) -> None:
    if done is not None:
        done(result)
