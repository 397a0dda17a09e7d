"""Appends to the brokers of a cluster: choice of broker and queue, retry at another broker, state changes with messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, SYS_PREPARED, Message, Placed
from domain.ports import Clock
from domain.store.store_ports import MessageLog, StateChange
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.queue_choice import QueueChoice
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.brokers.send_request import PRODUCER_GROUP, batched, illegal, send_request, sent
from protocols.remoting.wire.frame import Frame

SEND_MS: Final = 6_000
"""Time that a broker has for a send: longer than its own time for a flush (`syncFlushTimeout`, by default 5 s), after which it
says that the message is stored. Who gives up before that sends the message to another broker too."""
ELSEWHERE: Final = frozenset(
    {ErrorCode.STORE_UNAVAILABLE, ErrorCode.OVERLOADED, ErrorCode.NOT_ALLOWED, ErrorCode.TOPIC_NOT_FOUND}
)
"""Failures of one broker that another one may not have."""

Appended = Callable[[list[Placed] | Failure], None]
HalfStored = Callable[[str, str, str, str, int, int], None]
"""(producer group, message id, topic, broker, queue offset, physical offset) of a half message that is stored."""


@final
class Appends:
    """Sends messages to brokers, and stores the state changes that belong to them.

    The order is: the cluster has the messages, the changes are stored, `done` is called. The changes of messages that are
    stored without the promised durability (FLUSH_TIMEOUT) are stored too.

    unanswered_bytes   bytes of bodies and properties of messages in unanswered appends
    """

    def __init__(
        self,
        servers: Brokers,
        cluster: ClusterMap,
        local: MessageLog,
        choice: QueueChoice,
        clock: Clock,
        half_stored: HalfStored,
    ) -> None:
        """`local`: stores the changes; `half_stored`: called with each half message before its append is answered."""
        self._half_stored = half_stored
        self.unanswered_bytes = 0
        self._servers = servers
        self._cluster = cluster
        self._local = local
        self._choice = choice
        self._clock = clock
        self._unanswered: dict[int, None] = {}
        self._number = 0
        self._barriers: list[tuple[int, Callable[[], None]]] = []

    def append(self, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange]) -> None:
        """MessageLog.append. Messages of one append that no batch can hold together are stored or refused each on its own."""
        if messages:
            failure = _refused(messages)
            if failure is None:
                _Append(self, messages, done, changes).start()
            elif done is not None:
                done(failure)
        elif changes:
            self._local.append((), done, changes)
        else:
            self._after_earlier(lambda: self._local.append((), done))

    def begin(self, size: int) -> int:
        """Start an append; returns its number, for `end`."""
        self._number += 1
        self._unanswered[self._number] = None
        self.unanswered_bytes += size
        return self._number

    def end(self, number: int, size: int) -> None:
        """End an append, which is answered."""
        del self._unanswered[number]
        self.unanswered_bytes -= size
        oldest = next(iter(self._unanswered), self._number + 1)
        while self._barriers and self._barriers[0][0] < oldest:
            self._barriers.pop(0)[1]()

    def _after_earlier(self, then: Callable[[], None]) -> None:
        if self._unanswered:
            self._barriers.append((self._number, then))
        else:
            then()

    def store(self, changes: Sequence[StateChange], done: Appended) -> None:
        """Store the changes of messages that the cluster has."""
        self._local.append((), done, changes)

    def send(self, messages: Sequence[Message], done: Appended) -> None:
        """Send messages as one request, and again to another broker when the first one fails."""
        topic = messages[0].topic
        if self._cluster.route(topic) is None:
            self._cluster.ensure(
                topic, lambda failure: self._first(messages, done) if failure is None else done(failure)
            )  # fmt: skip
        else:
            self._first(messages, done)

    def _first(self, messages: Sequence[Message], done: Appended) -> None:
        first = messages[0]
        places = self._cluster.writable(first.topic)
        if not places:
            done(Failure(ErrorCode.STORE_UNAVAILABLE, f"topic {first.topic} has no queue that can be written now"))
            return
        if _is_keyed(first):
            at = first.queue_id
            # The same queue for the same key, as long as the queues that can be written are the same.
            place = at if at < len(places) and places[at] == at else places[at % len(places)]
        else:
            place = self._choice.choose(first.topic, places, first.queue_id)
        self._send_to(messages, place, done, not _is_keyed(first) and not first.sys_flag & SYS_PREPARED)

    def _send_to(self, messages: Sequence[Message], place: int, done: Appended, again: bool) -> None:
        queue = self._cluster.queues(messages[0].topic)[place]
        begun_ns = self._clock.monotonic_ns()

        def answered(answer: Frame | Failure) -> None:
            self._choice.answered(queue.broker, (self._clock.monotonic_ns() - begun_ns) // 1_000)
            result = (
                answer if isinstance(answer, Failure) else sent(queue.broker, answer, messages, place, self._clock.wall_ms())
            )
            if isinstance(result, Failure) and again and result.code in ELSEWHERE:
                other = self._elsewhere(messages[0].topic, queue.broker, place)
                if other is not None:
                    self._send_to(messages, other, done, False)
                    return
            if not isinstance(result, Failure):
                self._notify_half(messages, queue, result)
            done(result)

        self._servers.ask(queue.broker, send_request(messages, queue), answered, SEND_MS)

    def _elsewhere(self, topic: str, broker: str, place: int) -> int | None:
        """A queue at another broker that answers; None: there is none."""
        queues = self._cluster.queues(topic)
        places = [
            each
            for each in self._cluster.writable(topic)
            if queues[each].broker != broker and not self._servers.waits(queues[each].broker)
        ]
        return places[place % len(places)] if places else None

    def _notify_half(self, messages: Sequence[Message], queue: BrokerQueue, result: Sequence[Placed]) -> None:
        for message, where in zip(messages, result, strict=True):
            if message.sys_flag & SYS_PREPARED:
                group = properties.text(message.properties, properties.PGROUP) or PRODUCER_GROUP
                self._half_stored(
                    group, message.message_id, message.topic, queue.broker, where.queue_offset, where.physical_offset
                )  # fmt: skip


@final
class _Append:
    """One append: sends its messages in as few requests as batches allow, stores its changes, then answers."""

    def __init__(
        self, appends: Appends, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange]
    ) -> None:
        self._appends = appends
        self._runs = batched(messages)
        self._size = sum([len(each.body) + len(each.properties) for each in messages])
        self._done = done
        self._changes = changes
        self._results: list[list[Placed]] = [[] for _ in self._runs]
        self._failure: Failure | None = None
        self._left = len(self._runs)
        self._number = 0

    def start(self) -> None:
        """Send all."""
        self._number = self._appends.begin(self._size)
        for at, run in enumerate(self._runs):
            self._appends.send(run, lambda result, at=at: self._sent(at, result))  # type: ignore[misc]

    def _sent(self, at: int, result: list[Placed] | Failure) -> None:
        if not isinstance(result, Failure):
            self._results[at] = result
        elif _is_stored(self._failure):
            # FLUSH_TIMEOUT says that all is stored: what is not goes before it.
            self._failure = result
        self._left -= 1
        if self._left:
            return
        if _is_stored(self._failure) and self._changes:
            self._appends.store(self._changes, self._stored)
        else:
            self._end(self._failure)

    def _stored(self, result: list[Placed] | Failure) -> None:
        self._end(result if isinstance(result, Failure) else self._failure)

    def _end(self, failure: Failure | None) -> None:
        try:
            if self._done is not None:
                self._done([each for run in self._results for each in run] if failure is None else failure)
        finally:
            self._appends.end(self._number, self._size)


def _refused(messages: Sequence[Message]) -> Failure | None:
    """The refusal of messages of which a cluster cannot keep everything, None: there is none.

    NOT_SUPPORTED: it would set a latest value later, and brokers do not report the delivery of a delayed message.
    MESSAGE_ILLEGAL: its properties would not arrive as they are.
    """
    for message in messages:
        if message.retain != RETAIN_NONE and properties.message_type(message.properties) in ("DELAY", "TRANSACTION"):
            text = "a delayed or transactional message cannot set the latest value of its path at an Apache RocketMQ cluster"
            return Failure(ErrorCode.NOT_SUPPORTED, text)
        failure = illegal(message)
        if failure is not None:
            return failure
    return None


def _is_stored(failure: Failure | None) -> bool:
    """True when the cluster has the messages, as safe as promised or not."""
    return failure is None or failure.code is ErrorCode.FLUSH_TIMEOUT


def _is_keyed(message: Message) -> bool:
    """True for a message whose order matters: it has a message group or an MQTT path."""
    stored = message.properties
    return properties.has(stored, properties.SHARDING_KEY_START) or properties.has(stored, properties.ORIGIN_MQTT_TOPIC_START)
