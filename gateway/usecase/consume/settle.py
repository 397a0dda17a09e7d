"""Settling: acknowledging leases, moving their ends, and sending messages back to the group's retry topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from domain import address, limits
from domain.command import Acknowledge, Extend, SendBack, SendRetry
from domain.delivery.retry import DEFAULT
from domain.delivery.retry_owner import kept
from domain.errors import ErrorCode, Failure
from domain.event import Done, Extended, Refused, Sent, Settled
from domain.message import property as properties
from domain.message.message import Placed
from domain.message.receipt import RETRY_NONE, Receipt
from domain.message.record import Record
from domain.store.store_ports import Leases, MessageLog
from domain.topic.topic import PERM_WRITE, Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import copy_of, delay_if_room, leased_topic, make_dead_letter
from gateway.usecase.consume.lease_watch import LeaseWatches
from gateway.usecase.consume.locks import Locks
from gateway.usecase.handler import Verbs
from gateway.usecase.publish.send import Sending
from gateway.usecase.topics_and_groups.groups import Groups
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.waiting.fan_in import FanIn

_LEVELS = 18
Outcome = TypeVar("Outcome")


class Settling:
    """The verbs Acknowledge, Extend, SendBack and SendRetry."""

    def __init__(
        self, log: MessageLog, leases: Leases, groups: Groups, sending: Sending, locks: Locks, policy: NodePolicy,
        watches: LeaseWatches,
    ) -> None:  # fmt: skip
        self._watches = watches
        self._policy = policy
        self._locks = locks
        self._log = log
        self._leases = leases
        self._groups = groups
        self._sending = sending
        self.verbs: Verbs = {
            Acknowledge: self._acknowledge,
            Extend: self._extend,
            SendBack: self._send_back,
            SendRetry: self._retry,
        }

    def _acknowledge(self, connection: ClientConnection, command: Acknowledge) -> None:
        def settled(result: list[Failure | None] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                if self._watches.watched:
                    for receipt in command.receipts:
                        self._watches.settled(command.group, command.topic, receipt)
                connection.answer(Settled(command.ticket, result))

        if all(receipt.retry == RETRY_NONE for receipt in command.receipts):
            self._leases.settle(command.group, command.topic, command.receipts, settled)
        else:
            _by_topic(self._leases.settle, command, settled)

    def _extend(self, connection: ClientConnection, command: Extend) -> None:
        if not 0 <= command.invisible_ms <= limits.INVISIBLE_MS_MAX:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, "the invisible time is at least 0 and at most 12 hours")
            connection.answer(Refused(command.ticket, failure))
            return
        if command.untold:
            self._withdraw(command)
            connection.answer(Extended(command.ticket, list(command.receipts)))
            return
        invisible_ms = command.invisible_ms

        def extend(
            group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Receipt | Failure] | Failure], None]
        ) -> None:
            self._leases.extend(group, topic, receipts, invisible_ms, done)

        def extended(result: list[Receipt | Failure] | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
                return
            for old, new in zip(command.receipts, result, strict=True):
                if isinstance(new, Receipt) and old.retry != RETRY_NONE:
                    new.retry = old.retry
                if self._watches.watched:
                    self._notify(command, old, new)
            connection.answer(Extended(command.ticket, result))

        _by_topic(extend, command, extended)

    def _notify(self, command: Extend, old: Receipt, new: Receipt | Failure) -> None:
        """Notify the watchers of a lease: a nack ends it, an extension continues it under the new receipt."""
        if isinstance(new, Receipt) and command.invisible_ms:
            self._watches.extended(command.group, command.topic, old, new)
        else:
            self._watches.settled(command.group, command.topic, old)

    def _withdraw(self, command: Extend) -> None:
        parts: dict[str, list[Receipt]] = {}
        for receipt in command.receipts:
            parts.setdefault(leased_topic(command.group, command.topic, receipt), []).append(receipt)
        for topic, receipts in parts.items():
            self._leases.withdraw(command.group, topic, receipts, True)

    def _send_back(self, connection: ClientConnection, command: SendBack) -> None:
        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                connection.answer(Refused(command.ticket, group))
                return
            if not self._policy.permission & PERM_WRITE:
                text = "the broker sending message is forbidden: brokerPermission is without write"
                connection.answer(Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, text)))
                return
            if group.retry_queues == 0:
                # A group without retry queues retries nothing and has no dead letters (RocketMQ: retryQueueNums 0).
                connection.answer(Done(command.ticket))
                return

            def found(record: bytes | Failure) -> None:
                if isinstance(record, Failure):
                    connection.answer(Refused(command.ticket, record))
                elif not kept([record], Record(record).topic, group.name, self._groups.find):
                    text = f"the message there is not for group {group.name}"
                    connection.answer(Refused(command.ticket, Failure(ErrorCode.MESSAGE_NOT_FOUND, text)))
                else:
                    self._give_back(connection, command, group, Record(record))

            self._log.record_at(command.physical_offset, found)

        self._groups.ensure(command.group, ready)

    def _give_back(self, connection: ClientConnection, command: SendBack, group: Group, record: Record) -> None:
        times = record.reconsume_times
        most = command.retry_max if command.retry_max >= 0 else group.retry_max
        origin_topic = properties.text(record.properties, properties.RETRY_TOPIC) or record.topic
        origin_id = properties.text(record.properties, properties.ORIGIN_MESSAGE_ID)
        if not origin_id:
            origin_id = command.origin_message_id or properties.text(record.properties, properties.UNIQ_KEY)
        origin_id = properties.id_mark(origin_id)
        # The id goes first: it marks a message that was given back, not one that POP has moved (domain.delivery.retry_owner).
        changes = {properties.ORIGIN_MESSAGE_ID: origin_id, properties.RETRY_TOPIC: origin_topic}
        if command.delay_level < 0 or times >= most:
            changes[properties.DLQ_ORIGIN_TOPIC] = origin_topic
            changes[properties.DLQ_ORIGIN_MESSAGE_ID] = origin_id
            message = copy_of(record, address.dead_letter_topic(group.name), reconsume_times=times, changes=changes)
        else:
            if command.delay_level <= 0 and group.retry != DEFAULT:
                changes[properties.TIMER_DELAY_MS] = str(group.retry.delay_ms(times))
            else:
                # The default policy is the list of delay levels; RocketMQ's tools show a level, not a time.
                level = command.delay_level if command.delay_level > 0 else 3 + times
                changes[properties.DELAY] = str(min(level, _LEVELS))
            message = copy_of(record, address.retry_topic(group.name), reconsume_times=times + 1, changes=changes)
            delay_if_room(message)

        def stored(result: list[Placed] | Failure) -> None:
            connection.answer(Refused(command.ticket, result) if isinstance(result, Failure) else Done(command.ticket))

        connection.wrote(len(message.body))
        self._sending.submit([message], stored)

    def _retry(self, connection: ClientConnection, command: SendRetry) -> None:
        def stored(result: list[Placed] | Failure) -> None:
            connection.answer(Refused(command.ticket, result) if isinstance(result, Failure) else Sent(command.ticket, result))

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Failure):
                if command.wait:
                    connection.answer(Refused(command.ticket, group))
                return
            most = command.retry_max if command.retry_max >= 0 else group.retry_max
            ordered = self._locks.is_locked(group.name)
            for message in command.messages:
                if ordered or message.reconsume_times > most:
                    make_dead_letter(group.name, message)
                else:
                    delay_if_room(message)
            self._sending.submit(command.messages, stored if command.wait else None)

        self._groups.ensure(command.group, ready)


def _by_topic(
    verb: Callable[[str, str, Sequence[Receipt], Callable[[list[Outcome] | Failure], None]], None],
    command: Acknowledge | Extend,
    done: Callable[[list[Outcome] | Failure], None],
) -> None:
    """Call `verb` once for the receipts of the topic and once for those of the group's retry topic.

    `done` gets the outcomes in the order of the command's receipts, or the first failure.
    """
    receipts = command.receipts
    parts: dict[str, list[int]] = {}
    for at, receipt in enumerate(receipts):
        parts.setdefault(leased_topic(command.group, command.topic, receipt), []).append(at)

    def settle(topic: str, settled: Callable[[list[Outcome] | Failure], None]) -> None:
        verb(command.group, topic, [receipts[at] for at in parts[topic]], settled)

    def settled_all(found: dict[tuple[str], list[Outcome]], failure: Failure | None) -> None:
        if failure is not None:
            done(failure)
            return
        outcomes = {at: each for (topic,), part in found.items() for at, each in zip(parts[topic], part, strict=True)}
        done([outcomes[at] for at in range(len(receipts))])

    FanIn(settle, settled_all).start([(topic,) for topic in parts])
