"""Transactions: producers commit or roll back half messages; the gateway checks with one of them when none does.

Half messages are sent like any other. The store hides them until they are committed, and reports when to check.
"""

from __future__ import annotations

from domain.access.access import PUB, TOPIC, CheckAccess, Need
from domain.address import UNDECIDED_TOPIC
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Message
from domain.message.record import Record
from domain.store.store_ports import MessageLog
from domain.transaction import COMMIT, UNKNOWN, CheckTransaction, EndTransaction, ResumeTransaction, Transactions
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered
from gateway.usecase.membership.members import Registry
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_polls import RightsCheck

_HALF = (properties.REAL_TOPIC, properties.REAL_QID, properties.TRANSACTION_ID)


class TransactionEnding:
    """The verb EndTransaction. As a TransactionListener it checks with the producers of a group, another one each time.

    _check   returns the refusal of a command; None: access is not controlled
    """

    def __init__(self, transactions: Transactions, registry: Registry) -> None:
        self._transactions = transactions
        self._registry = registry
        self._check: RightsCheck | None = None
        registry.on_producer.append(transactions.present)
        self.verbs: Verbs = {EndTransaction: self._end}

    def _end(self, connection: ClientConnection, command: EndTransaction) -> None:
        def ended(result: None | Failure) -> None:
            if command.wait:
                connection.answer(Done(command.ticket) if result is None else Refused(command.ticket, result))

        if command.outcome == UNKNOWN:
            ended(None)
            return
        self._transactions.end(
            command.group, command.message_id, command.offset, command.position, command.outcome == COMMIT, ended
        )

    def review(self, check: RightsCheck) -> None:
        """Rights have changed, or the node has started: producers are judged when they are to be asked."""
        self._check = check

    def undecided(self, group: str, record: bytes, check: int) -> bool:
        """Ask one connected producer of the group for its decision. Returns False when there is none.

        The question has the message in it, and any client can register as a producer of a group: only those are asked that may
        send to the topic. The store checks again when a producer connects, and after a while when none has answered.
        """
        view = Record(record)
        producers = self._registry.producers(group)
        ids = list(producers)
        for at in range(len(ids)):
            client_id = ids[(view.queue_offset + check + at) % len(ids)]
            if self._may_send(producers[client_id], view.topic):
                message_id = properties.text(view.properties, properties.UNIQ_KEY)
                producers[client_id].answer(CheckTransaction(None, client_id, group, message_id, record))
                return True
        return False

    def _may_send(self, producer: ClientConnection, topic: str) -> bool:
        if self._check is None:
            return True
        wanted: Command = CheckAccess(None, (Need(TOPIC, topic, (PUB,)),))
        wanted.principal = producer.last_principal
        return self._check(producer, wanted) is None


class TransactionResuming:
    """The verb ResumeTransaction: checks begin again for a half message that was given up."""

    def __init__(self, log: MessageLog, topics: Topics) -> None:
        self._log = log
        self._topics = topics
        self.verbs: Verbs = {ResumeTransaction: self._resume}

    def _resume(self, connection: ClientConnection, command: ResumeTransaction) -> None:
        answer = answered(connection, Done(command.ticket))

        def found(data: bytes | Failure) -> None:
            message = data if isinstance(data, Failure) else self._half(Record(data))
            if isinstance(message, Failure):
                answer(message)
            else:
                self._log.append([message], answer)

        self._log.record_at(command.position, found)

    def _half(self, record: Record) -> Message | Failure:
        stored = record.properties
        if record.topic != UNDECIDED_TOPIC:
            return Failure(ErrorCode.MESSAGE_NOT_FOUND, f"no message of {UNDECIDED_TOPIC} begins there")
        name = properties.text(stored, properties.REAL_TOPIC)
        topic = self._topics.find(name)
        if topic is None:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {name} does not exist")
        queue_id = int(properties.find(stored, properties.REAL_QID_START))
        return Message(
            name, record.body, properties.without(stored, _HALF),
            queue_id=queue_id if queue_id < topic.write_queues else 0,
            message_id=properties.text(stored, properties.UNIQ_KEY), sys_flag=record.sys_flag | SYS_PREPARED,
            flag=record.flag, born_ms=record.born_ms, born_host=record.born_host, reconsume_times=record.reconsume_times,
        )  # fmt: skip
