"""Transactions and recall: messages that are stored and not yet to be seen, and what decides over them.

A half message is a Send whose message has SYS_PREPARED (and TRAN_MSG=true among its properties): nobody sees it until
EndTransaction commits it. One that stays undecided is asked about by CheckTransaction, at one producer of its group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from domain.command import Command
from domain.errors import Failure
from domain.event import Event

COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"
UNKNOWN: Final = "UNKNOWN"


@dataclass(slots=True)
class EndTransaction(Command):
    """Decide over a half message -> Done, durably. MESSAGE_NOT_FOUND, NOT_ALLOWED when it is another group's.

    message_id   its UNIQ_KEY, which is the transaction id
    outcome      COMMIT, ROLLBACK, or UNKNOWN: it stays open and is asked about again
    offset       the half's queue offset and `position` its physical one, as Sent told them; -1 for who knows only the id
    wait         False: no answer expected

    Deciding twice in the same way is success, in the other way MESSAGE_NOT_FOUND as long as the node remembers.
    """

    ticket: object
    group: str
    message_id: str
    outcome: str
    offset: int = -1
    position: int = -1
    wait: bool = True


@dataclass(slots=True)
class ResumeTransaction(Command):
    """Make a half message anew of one that nobody decided over and that was put away -> Done, durably: it is asked about again.

    `position` is the record's in UNDECIDED_TOPIC, where it stays. MESSAGE_NOT_FOUND, TOPIC_NOT_FOUND.
    """

    ticket: object
    position: int


@dataclass(slots=True)
class RecallMessage(Command):
    """Take back a message that is not due yet, by the handle that its Sent carried -> Recalled, durably.

    ARGUMENT_ILLEGAL for what is no handle of this broker and topic, MESSAGE_NOT_FOUND when it is due, delivered or unknown.
    Recalling again is success too, until retention has taken the record.
    """

    ticket: object
    topic: str
    handle: str


@dataclass(slots=True)
class Recalled(Event):
    """The message will not be delivered."""

    ticket: object
    message_id: str


@dataclass(slots=True)
class CheckTransaction(Event):
    """Unasked (ticket None): the client's producer `group` is to say what became of a half message.

    `record` shows the message as it will be, in its own topic and queue, with the queue offset and the physical offset of the
    half. The answer is an EndTransaction, or silence.
    """

    ticket: object
    client_id: str
    group: str
    message_id: str
    record: bytes


@dataclass(slots=True)
class TransactionCheckPolicy:
    """When producers are asked about what they left open. One object for the store: tools may change it, and it holds at once.

    timeout_ms    a half message is asked about first when it is this old, where it does not say otherwise itself
    interval_ms   and then this often
    count_max     as often as this at most; the next time it is put away

    Names of BrokerConfig: transactionTimeOut, transactionCheckInterval, transactionCheckMax.
    """

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    count_max: int = 15


class TransactionListener(Protocol):
    """Told by the store, on the loop's thread."""

    def undecided(self, group: str, record: bytes, check: int) -> bool:
        """A half message of producer `group` waits for a decision: ask somebody, for the `check`th time.

        `record` as in CheckTransaction. False when nobody is there: it is asked again when `present` says that somebody is.
        """


class Transactions(Protocol):
    """Half messages, which `MessageStore.append` takes like any other (SYS_PREPARED): what becomes of them."""

    check_policy: TransactionCheckPolicy

    def listen(self, listener: TransactionListener) -> None:
        """Add a listener."""

    def present(self, group: str) -> None:
        """A producer of `group` has come, or has come again: ask it what nobody was there to be asked."""

    def end(
        self,
        group: str,
        message_id: str,
        offset: int,
        position: int,
        commit: bool,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """Commit or roll back, durably before `done`; parameters and failures as in EndTransaction."""

    def topic(self, group: str, message_id: str, offset: int) -> str:
        """The topic of the message that `end` would decide over, "" when there is none that is open."""


class Timers(Protocol):
    """Messages that wait for their time."""

    def recall(self, topic: str, due_ms: int, message_id: str, done: Callable[[None | Failure], None]) -> None:
        """Take one back, durably before `done`. MESSAGE_NOT_FOUND when none waits, or its time has come."""
