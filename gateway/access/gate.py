"""The access gate: a handler before the dispatcher that passes on the commands that are granted.

It exists only where access is controlled. See docs/decisions/0011-one-gate-for-access.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.access.access import GROUP, PUB, CheckAccess, Need, Reauthenticate, no_credentials
from domain.access.principal import GATEWAY, Principal
from domain.client.mqtt_session import Attach, SendOnce, Subscribe, Subscribed
from domain.command import Command, Send, SendBack
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.filter.path_matching import path_of
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_ports import MessageLog
from domain.transaction import EndTransaction, Transactions
from gateway.access import needs
from gateway.access.authority import Access
from gateway.access.revocation import AccessRevocation
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler

REMOTING: Final = "remoting"
"""The protocol whose messages get no origin properties, so that they are delivered as stored (decision 0008)."""


@final
class Gate:
    """Checks every command with the authority, and answers refused commands that expect an answer."""

    def __init__(
        self,
        access: Access,
        handler: Handler,
        transactions: Transactions | None = None,
        revocation: AccessRevocation | None = None,
        log: MessageLog | None = None,
        known: needs.CommandNeeds = needs.OWN,
    ) -> None:
        """Make a gate before `handler`.

        transactions   topics of half messages; None: only Super users may end transactions
        log            topics of messages that are sent back; None: only Super users may send messages back
        revocation     gets the principals of connections; None: a client that loses its access is refused its next command
        """
        self._access = access
        self._revocation = revocation
        self._handle = handler.handle
        self._transactions = transactions
        self._log = log
        self._needs = known.table
        self._silent = known.silent
        self._special: dict[type[Command], Callable[[ClientConnection, Principal, Command], None]] = {
            Send: self._send,
            SendOnce: self._send,
            Subscribe: self._subscribe,
            Attach: self._attach,
            CheckAccess: self._ask,
            EndTransaction: self._end,
            SendBack: self._send_back,
            Reauthenticate: self._renew,
        }

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command on, or refuse it."""
        kind = type(command)
        principal = getattr(command, "principal", None) or connection.principal
        if principal is GATEWAY or kind in self._silent:
            self._handle(connection, command)
            return
        if principal is None:
            self._access.refused["not-authenticated"] += 1
            self._refuse(connection, command, no_credentials(connection.protocol))
            return
        if principal.expires_ms or principal.epoch != self._access.records.epoch:
            fallen = self._access.current(principal)
            if fallen is not None:
                self._refuse(connection, command, fallen)
                return
        if connection.last_principal is not principal and self._revocation is not None:
            self._revocation.track(connection, principal)
        special = self._special.get(kind)
        if special is not None:
            special(connection, principal, command)
        elif principal.privileged:
            self._handle(connection, command)
        else:
            self._decide(connection, principal, command)

    def _decide(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        wanted = self._needs.get(type(command))
        if wanted is None:
            text = f"User:{principal.user}: {type(command).__name__} is for Super users"
            self._deny(connection, command, Failure(ErrorCode.NOT_ALLOWED, text, denied=True))
            return
        failure = self._access.first_denial(principal, wanted(command), connection.client_id)
        if failure is None:
            self._handle(connection, command)
        else:
            self._deny(connection, command, failure)

    def _send(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        assert isinstance(command, Send | SendOnce)
        failure = None if principal.privileged else self._unsendable(principal, command.messages, connection.client_id)
        if failure is None:
            if connection.protocol != REMOTING:
                _sign(principal, command.messages)
            self._handle(connection, command)
        else:
            self._deny(connection, command, failure)

    def _unsendable(self, principal: Principal, messages: Sequence[Message], client: str) -> Failure | None:
        """The refusal of any of `messages`; None: all may be sent. Without rules, messages of one topic are checked once."""
        ruled = bool(self._access.rules)
        before = ""
        for message in messages:
            topic = message.topic
            path = path_of(topic, message.properties) if ruled else topic
            if path == before:
                continue
            before = path
            key = (PUB, path, topic)
            verdicts = principal.verdicts
            if not ruled and key in verdicts:
                failure = verdicts[key]
            else:
                failure = self._access.first_denial(principal, (needs.publish(path, topic),), client)
                if not ruled:
                    verdicts[key] = failure
            if failure is not None:
                return failure
        return None

    def _subscribe(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        """Check subscriptions one by one, and pass on the command unless all are refused."""
        assert isinstance(command, Subscribe)
        if principal.privileged:
            self._handle(connection, command)
            return
        outcomes: list[Failure | None] = []
        for subscription in command.subscriptions:
            subscription.refused = self._access.first_denial(principal, needs.subscription(subscription), connection.client_id)
            outcomes.append(subscription.refused)
        self._access.refused["not-allowed"] += len(outcomes) - outcomes.count(None)
        for failure in outcomes:
            if failure is not None:
                self._write_down(connection, command, failure)
        if None in outcomes:
            self._handle(connection, command)
        else:
            connection.answer(Subscribed(command.ticket, outcomes))

    def _attach(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        """Check bans and the topic of the will, then make this principal the owner of the connection."""
        assert isinstance(command, Attach)
        banned = self._access.bans.of(principal.user, command.client_id, principal.host)
        if banned is not None:
            self._deny(connection, command, banned)
            return
        if not principal.privileged:
            failure = self._access.first_denial(principal, needs.TABLE[Attach](command), command.client_id)
            if failure is not None:
                self._deny(connection, command, failure)
                return
        connection.principal = principal
        if command.will is not None:
            command.will.host, command.will.registered = principal.host, principal.registered
            _sign(principal, (command.will.message,))
        self._handle(connection, command)

    def _renew(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        """Extend the connection to the expiry of newer credentials of the same user."""
        assert isinstance(command, Reauthenticate)
        if connection.principal is None or connection.principal.user != principal.user:
            text = "a connection stays the user's that it has begun as: connect again as another"
            self._deny(connection, command, Failure(ErrorCode.NOT_ALLOWED, text))
            return
        connection.principal = principal
        connection.answer(Done(command.ticket))

    def _ask(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        assert isinstance(command, CheckAccess)
        failure = None if principal.privileged else self._access.first_denial(principal, command.needs, connection.client_id)
        if failure is None:
            connection.answer(Done(command.ticket))
        else:
            self._deny(connection, command, failure)

    def _end(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        """Ending a transaction needs the right to publish to the topic of its half message, whatever topic the command names.

        Where no such transaction is open nothing is checked: the answer says so, or repeats the decision.
        """
        assert isinstance(command, EndTransaction)
        if principal.privileged:
            self._handle(connection, command)
            return
        if self._transactions is None:
            text = f"User:{principal.user}: transactions are for Super users"
            self._deny(connection, command, Failure(ErrorCode.NOT_ALLOWED, text, denied=True))
            return

        def found(topic: str | Failure) -> None:
            if isinstance(topic, Failure):
                self._refuse(connection, command, topic)
                return
            wanted = (needs.of_topic(topic, needs.PUBLISH),) if topic else ()
            failure = self._access.first_denial(principal, wanted, connection.client_id)
            if failure is None:
                self._handle(connection, command)
            else:
                self._deny(connection, command, failure)

        self._transactions.topic(command.group, command.message_id, command.offset, found)

    def _send_back(self, connection: ClientConnection, principal: Principal, command: Command) -> None:
        """A message is sent back by its position in the log, and then the group receives it: that needs the right to its topic.

        Where no message is, nothing is checked but the group: the answer says so.
        """
        assert isinstance(command, SendBack)
        if principal.privileged:
            self._handle(connection, command)
            return
        failure = self._access.first_denial(principal, (Need(GROUP, command.group, needs.SUBSCRIBE),), connection.client_id)
        if failure is not None:
            self._deny(connection, command, failure)
            return
        if self._log is None:
            text = f"User:{principal.user}: messages are sent back by Super users"
            self._deny(connection, command, Failure(ErrorCode.NOT_ALLOWED, text, denied=True))
            return

        def found(record: bytes | Failure) -> None:
            denied: Failure | None = None
            if not isinstance(record, Failure):
                wanted = needs.of_topic(Record(record).topic, needs.SUBSCRIBE, command.group)
                denied = self._access.first_denial(principal, (wanted,), connection.client_id)
            if denied is None:
                self._handle(connection, command)
            else:
                self._deny(connection, command, denied)

        self._log.record_at(command.physical_offset, found)

    def _deny(self, connection: ClientConnection, command: Command, failure: Failure) -> None:
        self._access.refused["not-allowed"] += 1
        self._write_down(connection, command, failure)
        self._refuse(connection, command, failure)

    def _write_down(self, connection: ClientConnection, command: Command, failure: Failure) -> None:
        audit = self._access.audit
        principal = getattr(command, "principal", None) or connection.principal
        if audit is not None and principal is not None:
            audit.refused(connection, principal, type(command).__name__, failure)

    def _refuse(self, connection: ClientConnection, command: Command, failure: Failure) -> None:
        ticket = getattr(command, "ticket", None)
        if isinstance(command, Subscribe):
            connection.answer(Subscribed(ticket, [failure] * len(command.subscriptions)))
        elif ticket is None or not getattr(command, "wait", True):
            return
        elif isinstance(command, Send | SendOnce):
            connection.refuse(ticket, failure)
        else:
            connection.answer(Refused(ticket, failure))


def _sign(principal: Principal, messages: Sequence[Message]) -> None:
    """Add property HG_PRINCIPAL, beside the other properties of a message's origin."""
    if properties.is_storable(properties.HG_PRINCIPAL, principal.user):
        mark = properties.entry(properties.HG_PRINCIPAL, principal.user)
        for message in messages:
            message.properties += mark
