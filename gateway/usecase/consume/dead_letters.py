"""Dead letters: a message whose attempts are used up is copied to `%DLQ%group`, then its lease is settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from domain import address, limits
from domain.command import DeadLetter
from domain.delivery.retry_owner import kept
from domain.errors import ErrorCode, Failure
from domain.event import Done
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.receipt import RETRY_NONE, RETRY_V2, Receipt
from domain.message.record import Record
from domain.store.store_ports import DeadLetterMoves, GroupPositions, Leases, MessageLog, ReadResult
from domain.store.store_request import ReadRequest
from domain.topic import lite
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.publish.send import Sending

_PARKED = (
    properties.DELAY, properties.TIMER_DELIVER_MS, properties.TIMER_DELAY_MS, properties.TIMER_DELAY_SEC,
    properties.TIMER_OUT_MS, *lite.MARKS,
)  # fmt: skip


def copy_of(record: Record, topic: str, *, reconsume_times: int, changes: Mapping[str, str]) -> Message:
    """A message for `topic` with body and properties of `record`, without its delay and lite topic, with `changes` set.

    The most needed of `changes` come first: a message of an earlier version may have no room for all (properties.with_room).
    """
    stored = properties.without(record.properties, _PARKED)
    return Message(
        topic,
        record.body,
        properties.with_room(stored, changes),
        sys_flag=record.sys_flag,
        flag=record.flag,
        born_ms=record.born_ms,
        born_host=record.born_host,
        reconsume_times=reconsume_times,
    )


def delay_if_room(message: Message) -> None:
    """Remove the delay of a message that has no room for the properties of a delayed one: it comes again at once."""
    if len(message.properties) + limits.PARKED_MARKS_BYTES_MAX > limits.PROPERTIES_BYTES_MAX:
        message.properties = properties.with_room(properties.without(message.properties, _PARKED), {})


def make_dead_letter(group: str, message: Message) -> None:
    """Change a message for the retry topic of `group` into one for its dead-letter topic, queue 0."""
    stored = properties.without(message.properties, _PARKED)
    origin = properties.text(stored, properties.RETRY_TOPIC) or message.topic
    origin_id = properties.text(stored, properties.ORIGIN_MESSAGE_ID) or properties.text(stored, properties.UNIQ_KEY)
    marks = {properties.DLQ_ORIGIN_TOPIC: origin, properties.DLQ_ORIGIN_MESSAGE_ID: properties.id_mark(origin_id)}
    message.properties = properties.with_room(stored, marks)
    message.topic = address.dead_letter_topic(group)
    message.queue_id = 0


def leased_topic(group: str, topic: str, receipt: Receipt) -> str:
    """The topic whose queue a receipt names: the group's retry topic when the receipt's retry flag is set, else `topic`."""
    if receipt.retry == RETRY_NONE or topic.startswith(address.RETRY_PREFIX):
        return topic
    name = address.pop_retry_topic if receipt.retry == RETRY_V2 else address.pop_retry_topic_v1
    return name(group, topic)


def _offset(queue: str, record: bytes) -> int:
    """The offset of a record in `queue`; a record has another offset in the queue of its lite topic."""
    view = Record(record)
    return lite.offset_in(view.properties) if queue.startswith(lite.PREFIX) else view.queue_offset


class DeadLetters:
    """The verb DeadLetter, and `move` for messages whose attempts are used up."""

    def __init__(
        self,
        log: MessageLog,
        leases: Leases,
        positions: GroupPositions,
        sending: Sending,
        find_group: Callable[[str], Group | None],
        moves: DeadLetterMoves | None = None,
    ) -> None:
        """`find_group`: the group of a name. `moves` copies messages and settles their leases; None: `sending` appends them."""
        self._moves = moves
        self._log = log
        self._leases = leases
        self._positions = positions
        self._sending = sending
        self._find_group = find_group
        self.verbs: Verbs = {DeadLetter: self._dead_letter}

    def move(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        record: bytes,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Copy `record` to the dead-letter topic of `group`, then settle its lease, then call `done`.

        A crash between copy and settlement leaves two copies, never none. Failure: that of the append or the settlement.
        """
        if self._moves is not None:
            self._moves.move(group, topic, receipt, record, done)
            return
        view = Record(record)
        stored = view.properties
        message_id = properties.text(stored, properties.UNIQ_KEY)
        origin = properties.text(stored, properties.DLQ_ORIGIN_TOPIC) or lite.topic_of(topic)
        copy = copy_of(
            view,
            address.dead_letter_topic(group),
            reconsume_times=view.reconsume_times,
            changes={properties.DLQ_ORIGIN_TOPIC: origin, properties.DLQ_ORIGIN_MESSAGE_ID: properties.id_mark(message_id)},
        )

        def stored_copy(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                if done is not None:
                    done(result)
                return
            self._leases.settle(group, leased_topic(group, topic, receipt), [receipt], settled)

        def settled(result: list[Failure | None] | Failure) -> None:
            if done is not None:
                done(result if isinstance(result, Failure) else None)

        self._sending.submit([copy], stored_copy)

    def _dead_letter(self, connection: ClientConnection, command: DeadLetter) -> None:
        answer = answered(connection, Done(command.ticket))
        self.move_leased(command.group, command.topic, command.receipt, answer, connection.wrote)

    def move_leased(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        answer: Callable[[None | Failure], None],
        wrote: Callable[[int], None] = lambda size: None,
    ) -> None:
        """Move the message of a receipt. Harmless when it is settled already. Failure: RECEIPT_INVALID, and as `move`.

        `wrote` is called with the bytes of its body when it is stored again.
        """
        if self._moves is not None:
            self._moves.move(group, topic, receipt, None, answer)
            return
        leased = leased_topic(group, topic, receipt)

        def read(result: ReadResult | Failure) -> None:
            if isinstance(result, Failure):
                answer(result)
                return
            own = kept(result.records, leased, group, self._find_group)
            if not own or _offset(leased, own[0]) != receipt.queue_offset:
                answer(Failure(ErrorCode.RECEIPT_INVALID, "the receipt names no message that is still there"))
            else:
                wrote(len(Record(own[0]).body))
                self.move(group, topic, receipt, own[0], answer)

        def position(result: int | Failure) -> None:
            if not isinstance(result, Failure) and result > receipt.queue_offset:
                answer(None)  # moved or acknowledged before
                return
            self._log.read(ReadRequest(leased, receipt.queue_id, receipt.queue_offset, 1, limits.PULL_BYTES_MAX), read)

        self._positions.offset(group, leased, receipt.queue_id, position)
