"""Transactions and recall: messages that are stored but not visible yet, and the commands that decide over them.

A half message is sent with SYS_PREPARED and the property TRAN_MSG=true. It is visible when EndTransaction commits it. While it
is undecided, CheckTransaction asks a producer of its group about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from domain.command import TicketedCommand
from domain.delivery.recall import RecallHandle
from domain.errors import Failure
from domain.event import TicketedEvent
from domain.message.message import Message
from domain.store.store_ports import StateChange

COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"
UNKNOWN: Final = "UNKNOWN"


@dataclass(slots=True)
class EndTransaction(TicketedCommand):
    """Commit or roll back a half message -> Done, durably (RocketMQ code 37).

    message_id   UNIQ_KEY of the half message, which is the transaction id
    outcome      COMMIT, ROLLBACK, or UNKNOWN: it stays undecided and is checked again
    offset       queue offset of the half message, from Sent; -1: unknown
    position     physical offset of the half message, from Sent; -1: unknown

    Repeating a decision is a success. Errors: NOT_ALLOWED (another group's), MESSAGE_NOT_FOUND (unknown, or decided otherwise).
    """

    group: str
    message_id: str
    outcome: str
    offset: int = -1
    position: int = -1
    wait: bool = True


@dataclass(slots=True)
class ResumeTransaction(TicketedCommand):
    """Send a half message again that was given up undecided -> Done, durably (RocketMQ code 323). It is checked again.

    position   physical offset of its record in UNDECIDED_TOPIC; the record stays there

    Errors: MESSAGE_NOT_FOUND, TOPIC_NOT_FOUND.
    """

    position: int


@dataclass(slots=True)
class RecallMessage(TicketedCommand):
    """Cancel the delivery of a delayed message -> Recalled, durably (RocketMQ code 370).

    handle   from the Placed of its send (domain.delivery.recall)

    Recalling again is a success until retention deletes the record.
    Errors: TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL (the handle is of another broker or topic), MESSAGE_NOT_FOUND (it is
    due, delivered or unknown).
    """

    topic: str
    handle: str


@dataclass(slots=True)
class Recalled(TicketedEvent):
    """The message will not be delivered."""

    message_id: str


@dataclass(slots=True)
class CheckTransaction(TicketedEvent):
    """Ask a producer of `group` for the outcome of a half message; ticket None (RocketMQ code 39).

    message_id   UNIQ_KEY of the half message
    record       the message in its own topic and queue, with the queue offset and the physical offset of the half message

    The client answers with EndTransaction, or not at all.
    """

    client_id: str
    group: str
    message_id: str
    record: bytes


@dataclass(slots=True)
class TransactionCheckPolicy:
    """Policy of the checks of undecided half messages at producers. Tools change it at run time, with immediate effect.

    timeout_ms    age of a half message at its first check, unless the message sets its own
    interval_ms   time between checks
    count_max     checks at most; then the half message is given up and moved to UNDECIDED_TOPIC

    RocketMQ's transactionTimeOut, transactionCheckInterval and transactionCheckMax (BrokerConfig).
    """

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    count_max: int = 15


class TransactionListener(Protocol):
    """Called by the store, on the loop's thread."""

    def undecided(self, group: str, record: bytes, check: int) -> bool:
        """Ask a producer of `group` about a half message, for the `check`th time; `record` as in CheckTransaction.

        False: no producer is connected. The store asks again when `Transactions.present` reports one.
        """


class Transactions(Protocol):
    """Decisions over half messages. `MessageLog.append` takes half messages like any other.

    check_policy   when undecided half messages are checked
    """

    check_policy: TransactionCheckPolicy

    def listen(self, listener: TransactionListener) -> None:
        """Add a listener."""

    def present(self, group: str) -> None:
        """A producer of `group` has connected: check the half messages that could not be checked without one."""

    def end(
        self,
        group: str,
        message_id: str,
        offset: int,
        position: int,
        commit: bool,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Commit or roll back, durably before `done`. Parameters and failures as in EndTransaction."""

    def topic(self, group: str, message_id: str, offset: int, done: Callable[[str | Failure], None]) -> None:
        """The topic of the undecided half message that `end` would decide over, "" when there is none."""


class Timers(Protocol):
    """Delayed messages."""

    def recall(self, handle: RecallHandle, done: Callable[[None | Failure], None]) -> None:
        """Cancel one, durably before `done`. Failure: MESSAGE_NOT_FOUND (unknown, or it is due); NOT_SUPPORTED."""

    def accompany(self, change: Callable[[Message], StateChange | None]) -> None:
        """Ask `change` about each delayed message when it is delivered, and each half message when its transaction commits.

        Its state change is in the commit of the delivery.

        It may change the properties of the message, and is asked again when a delivery was refused. Called before the first
        turn of the loop. A change that finds no room (`StateChange.within`) is left out.
        """
