"""Sending: messages are checked, given an id and a queue, and appended. The answer waits for their topic's durability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from domain import address, limits
from domain.access.principal import GATEWAY
from domain.command import Send
from domain.errors import ErrorCode, Failure
from domain.event import Sent
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, Message, Placed
from domain.message.once import OnceKey
from domain.ports import Clock
from domain.store.store_ports import MessageLog, StateChange
from domain.topic.topic import PERM_WRITE, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.publish.gathered_sends import GATHERED_BODY_BYTES_MAX, GatheredSends
from gateway.usecase.publish.held_sends import HeldSend, HeldSends, Stored
from gateway.usecase.publish.identity import MessageIds
from gateway.usecase.publish.lite_message import accept as accept_lite
from gateway.usecase.publish.once import append_each, client_key, key_of
from gateway.usecase.topics_and_groups.placement import Placement
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.priority import prioritize
from gateway.usecase.topics_and_groups.topics import Topics

HELD_BYTES: Final = 4_096
"""Bytes counted for a message that waits for its topic, beside its body."""

Retain = Callable[[Message], StateChange | None]
"""The change of state of a message that sets or removes the latest value of its path (LatestChanges.at_send)."""


class Sending:
    """The verb Send, and `submit` for other use cases that append messages (wills, dead letters).

    held           sends that wait until their topic is created, HELD_BYTES for each message and its body
    gathered       messages of this turn that are appended at its end
    gathers        True: messages of a turn are appended together, since the store is one log
    _held_topics   topics with such sends
    _written       the last topic that clients may write to, whatever the policy is
    """

    def __init__(
        self, log: MessageLog, topics: Topics, clock: Clock, ids: MessageIds, retain: Retain, policy: NodePolicy,
        refusal: Callable[[], Failure | None] | None = None,
    ) -> None:  # fmt: skip
        """`refusal`: as in `HeldSends`."""
        self._log = log
        self._topics = topics
        self._clock = clock
        self._ids = ids
        self._retain = retain
        self._policy = policy
        self._placement = Placement()
        self.gathers = False
        self.gathered = GatheredSends(log, clock.call_soon)
        self.held = HeldSends(topics, refusal)
        self._held_topics = self.held.queues
        self._written: Topic | None = None
        self.verbs: Verbs = {Send: self._send}

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages that the store has still to take; not of those that wait while it takes nothing."""
        held = self.held.bytes
        if held and self.held.refusal() is not None:
            held = 0
        return held + self.gathered.bytes

    def _send(self, connection: ClientConnection, command: Send) -> None:
        failure = None if command.principal is GATEWAY else too_large(command.messages)
        if failure is not None:
            if command.wait:
                connection.refuse(command.ticket, failure)
            return
        if command.typed:
            failure = self._conflict(command.messages)
            if failure is not None:
                connection.refuse(command.ticket, failure)
                return
        if self.gathers and len(command.messages) == 1 and self._gather(connection, command):
            return
        principal = connection.principal if command.principal is None else command.principal
        user = "" if principal is None else principal.user
        once = None
        if command.once is not None:
            key, of = command.once
            once = client_key(user, command.messages[0].topic, key, of)
        if command.early:
            self._send_early(connection, command, user, once)
        elif command.wait:

            def done(result: list[Placed] | Failure) -> None:
                if isinstance(result, Failure):
                    connection.refuse(command.ticket, result)
                else:
                    connection.answer(Sent(command.ticket, result))

            self.submit(command.messages, done, queues=command.queues, user=user, once=once, sender=connection)
        else:
            self.submit(command.messages, None, queues=command.queues, user=user, once=once, sender=connection)

    def _gather(self, connection: ClientConnection, command: Send) -> bool:
        """Accept a message that is alone in its command. It is appended at the end of the turn, with others of any connection.

        False: it needs more than that, such as a topic, a state change, a key or a delay.
        """
        if command.early or command.once is not None:
            return False
        message = command.messages[0]
        if len(message.body) > GATHERED_BODY_BYTES_MAX:
            return False
        if message.retain != RETAIN_NONE or message.sys_flag or (not message.plain and _says_more(message.properties)):
            return False
        topic = self._topics.find(message.topic)
        if topic is None or topic.attributes or topic.type == "LITE" or message.topic in self._held_topics:
            return False
        self._placement.turn()
        failure = self._accept(topic, message)
        if failure is None:
            self.gathered.add(connection, command.ticket, message, command.wait)
        elif command.wait:
            connection.refuse(command.ticket, failure)
        return True

    def _send_early(self, connection: ClientConnection, command: Send, user: str, once: OnceKey | None) -> None:
        """Answer once: Refused when the messages are not accepted, Sent as soon as they are."""
        answered: list[bool] = []

        def done(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure) and not answered:
                answered.append(True)
                connection.refuse(command.ticket, result)

        def accepted() -> None:
            if not answered:
                answered.append(True)
                connection.answer(Sent(command.ticket, []))

        self.submit(command.messages, done, queues=command.queues, accepted=accepted, user=user, once=once)

    def submit(
        self,
        messages: list[Message],
        done: Stored | None,
        changes: list[StateChange] | None = None,
        queues: int = 0,
        accepted: Callable[[], None] | None = None,
        user: str = "",
        once: OnceKey | None = None,
        held: str = "",
        sender: ClientConnection | None = None,
    ) -> None:
        """Accept and append `messages`, with `changes` of state in the same commit. All of them or none.

        `once`: the key of all together. `user`: the sender, to whom keys of single messages belong; messages with known
        keys are not appended again, and those with a key are stored or refused each on its own.

        `queues`: of a topic that is created for them, as in `domain.command.Send`; 0: as the policy has it. `done` gets the
        placed messages when their topics' durability holds, or the Failure of the first message that is not accepted, of the
        topic that cannot be created, or of the store. `accepted` is called when the store has taken them, or after its Failure.
        `held`: the topic that they have waited for. `sender`: the connection of the client; None: they are of the node, or of
        a client that goes on after a refusal.
        """
        keys: dict[int, OnceKey] | None = None
        retained = RETAIN_NONE
        self.gathered.append()
        if sender is not None and sender.refusal is not None:
            if done is not None:
                done(sender.refusal)
            return
        self._placement.turn()
        for at, message in enumerate(messages):
            retained |= message.retain
            topic = self._topics.find(message.topic)
            if topic is None or (self._held_topics and message.topic != held and message.topic in self._held_topics):
                self._hold(message.topic, messages, done, changes, queues, accepted, user, once, sender)
                return
            keyed = not message.plain and properties.has(message.properties, properties.IDEMPOTENCY_KEY_START)
            if once is None and (keyed or topic.attributes):
                key = key_of(topic, message, user)
                if key is not None:
                    keys = {} if keys is None else keys
                    keys[at] = key
            failure = self._accept(topic, message)
            if failure is not None:
                if done is not None:
                    done(failure)
                return
        latest: dict[int, StateChange] | None = None
        if retained != RETAIN_NONE:
            latest = self._latest(messages)
        if keys is not None and len(messages) > 1:
            own = latest or {}
            items = [(message, keys.get(at), own.get(at)) for at, message in enumerate(messages)]
            append_each(self._log, items, done, changes or ())
        else:
            together = [*(changes or ()), *latest.values()] if latest else changes or ()
            key = once if keys is None else keys[0]
            if key is None:
                self._log.append(messages, done, together)
            else:
                self._log.append_once(key, messages, done, together)
        if accepted is not None:
            accepted()

    def _latest(self, messages: list[Message]) -> dict[int, StateChange]:
        """Place of a message -> the change of a latest value that goes with it."""
        found: dict[int, StateChange] = {}
        for at, message in enumerate(messages):
            change = self._retain(message) if message.retain != RETAIN_NONE else None
            if change is not None:
                found[at] = change
        return found

    def _conflict(self, messages: list[Message]) -> Failure | None:
        """TYPE_CONFLICT when a message does not fit the type of its topic. A topic that does not exist yet takes every type."""
        for message in messages:
            topic = self._topics.find(message.topic)
            wanted = topic.type if topic is not None else "MIXED"
            if wanted in ("MIXED", "UNSPECIFIED") or address.is_derived_topic(message.topic):
                continue
            found = properties.message_type(message.properties)
            if found != wanted:
                text = f"topic {message.topic} takes {wanted} messages, and this one is {found}: change one of them"
                return Failure(ErrorCode.TYPE_CONFLICT, text)
        return None

    def _hold(
        self,
        topic: str,
        messages: list[Message],
        done: Stored | None,
        changes: list[StateChange] | None,
        queues: int,
        accepted: Callable[[], None] | None,
        user: str,
        once: OnceKey | None,
        sender: ClientConnection | None,
    ) -> None:
        """`submit` when `topic` exists, and the sends that have waited for it before are appended."""

        def append(stored: Stored) -> None:
            self.submit(messages, stored, changes, queues, accepted, user, once, topic, sender)

        self.held.add(topic, queues, HeldSend(sum([HELD_BYTES + len(each.body) for each in messages]), append, done))

    def _accept(self, topic: Topic, message: Message) -> Failure | None:
        """Check one message against its topic; set its id, born time and queue. Accepting twice changes nothing."""
        if len(message.body) > limits.BODY_BYTES_MAX:
            return Failure(ErrorCode.MESSAGE_TOO_LARGE, f"the body has {len(message.body)} bytes, 4,194,304 are allowed")
        if topic is not self._written:
            failure = self._unwritable(topic)
            if failure is not None:
                return failure
        if message.message_id == "":
            self._name(message)
        if len(message.properties) > limits.PROPERTIES_BYTES_MAX:
            return _illegal(len(message.properties), limits.PROPERTIES_BYTES_MAX)
        if topic.type == "LITE":
            failure = accept_lite(topic, message)
            if failure is not None:
                return failure
        if message.born_ms == 0:
            message.born_ms = self._clock.wall_ms()
        if not message.plain and properties.has(message.properties, properties.PRIORITY_START):
            prioritize(topic, message)
        if message.queue_id < 0:
            message.queue_id = self._placement.queue(topic, message)
        elif message.queue_id >= max(topic.read_queues, topic.write_queues):
            return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {topic.name} has no queue {message.queue_id}")
        return None

    def _unwritable(self, topic: Topic) -> Failure | None:
        """NOT_ALLOWED when clients may not write to the topic. One that they may is not checked again while it is the same."""
        if not topic.perm & PERM_WRITE or topic.write_queues == 0:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {topic.name} cannot be written")
        if topic.order and not self._policy.permission & PERM_WRITE:
            # Other topics are still written: producers go to another broker by their next route (msgCheck of RocketMQ).
            return Failure(ErrorCode.NOT_ALLOWED, "the broker sending message is forbidden: brokerPermission is without write")
        if topic.name in address.UNSENDABLE_TOPICS:
            return Failure(ErrorCode.NOT_ALLOWED, f"topic {topic.name} belongs to the system and takes no messages of clients")
        self._written = None if topic.order else topic
        return None

    def _name(self, message: Message) -> None:
        stored = message.properties
        if not message.plain:
            known = properties.find(stored, properties.UNIQ_KEY_START)
            if known:
                message.message_id = known.decode("utf-8", "replace")
                return
            stored = properties.terminated(stored)
        name = message.message_id = self._ids.mint()
        message.properties = b"".join((stored, properties.UNIQ_KEY_START, name.encode(), properties.ENTRY_END))


def too_large(messages: Sequence[Message]) -> Failure | None:
    """PROPERTIES_TOO_LARGE when a client's message leaves no room for the node's marks on copies of it; else None.

    The use cases that take messages from clients ask; copies of the node may have limits.PROPERTIES_BYTES_MAX.
    """
    for message in messages:
        if len(message.properties) > limits.CLIENT_PROPERTIES_BYTES_MAX:
            size = properties.client_bytes(message.properties)
            if size > limits.CLIENT_PROPERTIES_BYTES_MAX:
                return _illegal(size, limits.CLIENT_PROPERTIES_BYTES_MAX)
    return None


def _illegal(size: int, most: int) -> Failure:
    return Failure(ErrorCode.PROPERTIES_TOO_LARGE, f"the properties have {size} bytes when stored, {most:,} are allowed")


def _says_more(stored: bytes) -> bool:
    """True for properties that set the time at which, or the number of times that, a message is stored."""
    return properties.may_have_delay(stored) or properties.has(stored, properties.IDEMPOTENCY_KEY_START)
