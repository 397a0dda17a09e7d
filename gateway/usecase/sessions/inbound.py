"""EXACTLY_ONCE messages from clients: each is stored with its packet identifier, and a retransmission is not stored again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from domain.client.mqtt_session import PacketIdsReleased, ReleasePacketIds, SendOnce
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.ports import Clock
from domain.store.store_ports import State
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.publish.send import Sending
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import MqttSession

READABLE_NS: Final = 200 * MILLISECOND_NS
LOOKS_MAX: Final = 300
"""Time between two looks at identifiers that are in the log, and not as durable yet as promised, and how many there are."""
_NOT_YET: Final = Failure(ErrorCode.FLUSH_TIMEOUT, "the message is stored, and not yet as durable as promised: send it again")


class InboundDeduplication:
    """SendOnce and ReleasePacketIds of connected sessions (MQTT 5, 4.3.3, method B)."""

    def __init__(self, state: State, sending: Sending, clock: Clock) -> None:
        self._state = state
        self._sending = sending
        self._clock = clock

    def send_once(self, session: MqttSession, connection: ClientConnection, command: SendOnce) -> None:
        """Append messages with new packet identifiers, and store the identifiers in the same commit."""
        received = session.received
        waiting = [1]  # the loop below counts as one, so that no answer comes before its end
        failed: list[Failure] = []

        def settle(failure: Failure | None) -> None:
            waiting[0] -= 1
            if failure is not None:
                failed.append(failure)
            if waiting[0] == 0:
                if failed:
                    connection.refuse(command.ticket, failed[0])
                else:
                    connection.answer(Done(command.ticket))

        user = "" if connection.principal is None else connection.principal.user
        messages: list[Message] = []
        packet_ids: list[int] = []
        for message, number in zip(command.messages, command.packet_ids, strict=True):
            if number not in received:
                received[number] = []
                # A message with a key goes alone: it may be refused while the others are stored.
                keyed = properties.has(message.properties, properties.IDEMPOTENCY_KEY_START)
                if messages and (keyed or properties.has(messages[-1].properties, properties.IDEMPOTENCY_KEY_START)):
                    waiting[0] += 1
                    self._append_once(session, connection, messages, packet_ids, settle, user)
                    messages, packet_ids = [], []
                messages.append(message)
                packet_ids.append(number)
                continue
            pending = received[number]
            if pending is not None:
                # The first copy is being appended: the retransmission gets the same answer.
                waiting[0] += 1
                pending.append(settle)
            elif session.durable:
                waiting[0] += 1
                self._is_kept(session, number, settle)
        if messages:
            self._append_once(session, connection, messages, packet_ids, settle, user)
        else:
            settle(None)

    def _is_kept(self, session: MqttSession, number: int, settle: Callable[[Failure | None], None]) -> None:
        """Settle a retransmission: the first copy was appended, but may not be as durable yet as promised."""

        def found(value: bytes | Failure | None) -> None:
            settle(value if isinstance(value, Failure) else _NOT_YET if value is None else None)

        self._state.get(snapshot.PARTS, snapshot.packet_id_key(session.name, number), found)

    def _append_once(
        self,
        session: MqttSession,
        connection: ClientConnection,
        messages: list[Message],
        packet_ids: list[int],
        settle: Callable[[Failure | None], None],
        user: str,
    ) -> None:
        def done(result: list[Placed] | Failure) -> None:
            failure = result if isinstance(result, Failure) else None
            # FLUSH_TIMEOUT: the messages are in the log, so that a retransmission must not be stored.
            stored = failure is None or failure.code is ErrorCode.FLUSH_TIMEOUT
            for number in packet_ids:
                waiters = session.received.get(number)
                if stored:
                    session.received[number] = None
                else:
                    session.received.pop(number, None)
                for waiter in waiters or ():
                    waiter(failure)
            settle(failure)
            if failure is not None and stored and session.durable:
                self._await_readable(session, packet_ids)
            else:
                session.append_done()

        changes = [snapshot.packet_id_change(session.name, number, True) for number in packet_ids] if session.durable else []
        session.appending += 1
        self._sending.submit(messages, done, changes, user=user, sender=connection)

    def _await_readable(self, session: MqttSession, packet_ids: list[int], looks: int = 0) -> None:
        """Count an append as under way until its identifiers can be read: a session that is loaded before would lack them.

        After LOOKS_MAX looks in vain this store confirms nothing more: its sessions are of no use to anybody.
        """
        waiting = [number for number in packet_ids if number in session.received]

        def found(value: bytes | Failure | None) -> None:
            if isinstance(value, bytes):
                session.append_done()
            else:
                again_ns = self._clock.monotonic_ns() + READABLE_NS
                self._clock.call_at(again_ns, lambda: self._await_readable(session, packet_ids, looks + 1))

        if waiting and looks < LOOKS_MAX:
            self._state.get(snapshot.PARTS, snapshot.packet_id_key(session.name, waiting[-1]), found)
        else:
            session.append_done()

    def release(self, session: MqttSession, connection: ClientConnection, command: ReleasePacketIds) -> None:
        """Forget packet identifiers. Answers when the store has removed them: the client may reuse them from then on."""
        known = [number in session.received for number in command.packet_ids]
        for number in command.packet_ids:
            session.received.pop(number, None)
        # An earlier removal may be stored without being durable: this one is answered when it is.
        unsure = [at for at, is_known in enumerate(known) if not is_known] if session.durable else []
        left = [len(unsure) + 1]

        def done(failure: None | Failure) -> None:
            connection.answer(PacketIdsReleased(command.ticket, known) if failure is None else Refused(command.ticket, failure))

        def found(at: int, value: bytes | Failure | None) -> None:
            known[at] = value is not None
            looked()

        def looked() -> None:
            left[0] -= 1
            if left[0]:
                return
            numbers = [number for number, is_known in zip(command.packet_ids, known, strict=True) if is_known]
            if session.durable and numbers:
                self._state.put([snapshot.packet_id_change(session.name, number, False) for number in numbers], done)
            else:
                done(None)

        for at in unsure:
            key = snapshot.packet_id_key(session.name, command.packet_ids[at])
            self._state.get(snapshot.PARTS, key, partial(found, at))
        looked()
