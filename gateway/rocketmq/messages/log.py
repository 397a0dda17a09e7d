"""`MessageLog` over the brokers of a cluster: sending, reading by offset, bounds, search by time and by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain import property as properties
from domain.errors import ErrorCode, Failure
from domain.message import RETAIN_NONE, SYS_PREPARED, Message, Placed
from domain.octets import uint64
from domain.once import OnceKey
from domain.ports import Clock
from domain.record import Record
from domain.store_ports import MessageLog, ReadResult, StateChange, StoreListener
from domain.store_request import KeyQuery, ReadRequest
from gateway.rocketmq.broker_request import BrokerRequest
from gateway.rocketmq.brokers import Brokers
from gateway.rocketmq.catalog.places import BrokerQueue
from gateway.rocketmq.cluster_map import ClusterMap
from gateway.rocketmq.link import BrokerAnswerError
from gateway.rocketmq.messages.choice import QueueChoice
from gateway.rocketmq.messages.once import OnceKeys
from gateway.rocketmq.messages.pull_reply import placed, pull_request, pulled, split
from gateway.rocketmq.messages.send_request import PRODUCER_GROUP, batched, send_request, sent
from gateway.rocketmq.refusal import refusal
from protocols.remoting import codes
from protocols.remoting.frame import Frame

SEND_MS: Final = 5_000
"""Time that a broker has for a send: longer than its own time for a flush."""
PULL_RECORDS_MAX: Final = 1_024
ELSEWHERE: Final = frozenset(
    {ErrorCode.STORE_UNAVAILABLE, ErrorCode.OVERLOADED, ErrorCode.NOT_ALLOWED, ErrorCode.TOPIC_NOT_FOUND}
)
"""Failures of one broker that another one may not have."""

Appended = Callable[[list[Placed] | Failure], None]
HalfStored = Callable[[str, str, str, str, int, int], None]
"""(producer group, message id, topic, broker, queue offset, physical offset) of a half message that is stored."""
Started = Callable[[str, Callable[[], None]], None]
"""(topic, then): calls `then` when the tail of the topic, if there is one, has begun."""


@final
class RocketmqLog:
    """`MessageLog`.

    Changes of state go with messages in this order: the cluster has the messages, then the changes are stored, then `done`.

    half_stored   told of each half message before its append is answered
    started       holds reads of a topic whose tail begins: what is behind the place where it begins comes by the tail
    """

    def __init__(
        self, servers: Brokers, cluster: ClusterMap, local: MessageLog, once: OnceKeys, choice: QueueChoice, clock: Clock
    ) -> None:
        self.half_stored: HalfStored | None = None
        self.started: Started = _at_once
        self.listeners: list[StoreListener] = []
        self._servers = servers
        self._cluster = cluster
        self._local = local
        self._once = once
        self._choice = choice
        self._clock = clock
        self._appends: dict[int, None] = {}
        self._number = 0
        self._barriers: list[tuple[int, Callable[[], None]]] = []
        self.unanswered_bytes = 0

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self.listeners.append(listener)

    def freed(self, group: str, topic: str) -> None:
        """Tell the listeners that there are messages to be had."""
        for listener in self.listeners:
            listener.freed(group, topic)

    def arrived(self, topic: str, place: int, records: Sequence[bytes]) -> None:
        """Tell the listeners of new records."""
        for listener in self.listeners:
            listener.arrived(topic, place, records)

    # Appending

    def append(self, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()) -> None:
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

    def append_once(
        self, key: OnceKey, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()
    ) -> None:
        """MessageLog.append_once, on this gateway (gateway.rocketmq.messages.once)."""
        self._once.append(key, lambda stored: self.append(messages, stored, changes), done)

    def begin(self, size: int) -> int:
        """An append begins: its number, for `end`."""
        self._number += 1
        self._appends[self._number] = None
        self.unanswered_bytes += size
        return self._number

    def end(self, number: int, size: int) -> None:
        """An append is answered."""
        del self._appends[number]
        self.unanswered_bytes -= size
        oldest = next(iter(self._appends), self._number + 1)
        while self._barriers and self._barriers[0][0] < oldest:
            self._barriers.pop(0)[1]()

    def _after_earlier(self, then: Callable[[], None]) -> None:
        if self._appends:
            self._barriers.append((self._number, then))
        else:
            then()

    def store(self, changes: Sequence[StateChange], done: Appended) -> None:
        """Store changes whose messages the cluster has."""
        self._local.append((), done, changes)

    def send(self, messages: Sequence[Message], done: Appended) -> None:
        """Send messages that go as one request; once more to another broker when the first one fails."""
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
                self._tell_half(messages, queue, result)
            done(result)

        self._servers.ask(queue.broker, send_request(messages, queue), answered, SEND_MS)

    def _elsewhere(self, topic: str, broker: str, place: int) -> int | None:
        """A place on another broker that answers, None: there is none."""
        queues = self._cluster.queues(topic)
        places = [
            each
            for each in self._cluster.writable(topic)
            if queues[each].broker != broker and not self._servers.waits(queues[each].broker)
        ]
        return places[place % len(places)] if places else None

    def _tell_half(self, messages: Sequence[Message], queue: BrokerQueue, result: Sequence[Placed]) -> None:
        for message, where in zip(messages, result, strict=True):
            if message.sys_flag & SYS_PREPARED and self.half_stored is not None:
                group = properties.text(message.properties, properties.PGROUP) or PRODUCER_GROUP
                self.half_stored(
                    group, message.message_id, message.topic, queue.broker, where.queue_offset, where.physical_offset
                )  # fmt: skip

    # Reading

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""
        queue = self._queue(request.topic, request.queue_id)
        if isinstance(queue, Failure):
            done(queue)
            return
        limit = min(request.limit, PULL_RECORDS_MAX)
        asked = pull_request(request.topic, queue, request.offset, limit, request.max_bytes)

        def answered(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                done(answer)
                return
            result = pulled(queue.broker, answer, request.queue_id, request.offset)
            done(result if isinstance(result, Failure) else _wanted(result, request))

        self.started(request.topic, lambda: self._servers.ask(queue.broker, asked, answered))

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at: an offset in a log says nothing without its broker."""
        text = "an offset id is looked up at the broker that it names: ask that broker by the remoting protocol"
        done(Failure(ErrorCode.MESSAGE_NOT_FOUND, text))

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """MessageLog.find: asked of every broker of the topic."""
        brokers = self._cluster.brokers_of(query.topic)
        if not brokers:
            done(Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {query.topic} has no route at the name servers"))
            return
        fields = {
            "topic": query.topic, "key": query.key, "maxNum": str(query.limit), "beginTimestamp": str(query.begin_ms),
            "endTimestamp": str(query.end_ms), "_UNIQUE_KEY_QUERY": "true" if query.unique else "false",
        }  # fmt: skip
        found: list[bytes] = []
        failures: list[Failure] = []
        left = len(brokers)

        def answered(broker: str, answer: Frame | Failure) -> None:
            nonlocal left
            left -= 1
            records = answer if isinstance(answer, Failure) else self._found(broker, answer, query)
            if isinstance(records, Failure):
                failures.append(records)
            else:
                found.extend(records)
            if left:
                return
            # A broker that is away keeps its own messages from being found; what others have is an answer.
            done(failures[0] if failures and not found else _newest(found, query))

        for broker in brokers:
            request = BrokerRequest(codes.QUERY_MESSAGE, {**fields, "bname": broker})
            self._servers.ask(broker, request, lambda answer, broker=broker: answered(broker, answer))  # type: ignore[misc]

    def _found(self, broker: str, answer: Frame, query: KeyQuery) -> list[bytes] | Failure:
        if answer.code == codes.QUERY_NOT_FOUND:
            return []
        if answer.code != codes.SUCCESS:
            return refusal(broker, answer)
        try:
            records = split(answer.body)
        except BrokerAnswerError as error:
            return Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {broker} answered a query with {error}")
        return [
            placed(data, max(self._cluster.place(query.topic, broker, record.queue_id), 0), record.store_ms)
            for data in records
            if (record := Record(data)).topic == query.topic and _has_key(record.properties, query)
        ]

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        both: list[int] = []

        def first(value: int | Failure) -> None:
            if isinstance(value, Failure):
                done(value)
                return
            both.append(value)
            self._number_of(topic, queue_id, codes.GET_MAX_OFFSET, {}, last)

        def last(value: int | Failure) -> None:
            done(value if isinstance(value, Failure) else (both[0], max(value, both[0])))

        self.started(topic, lambda: self._number_of(topic, queue_id, codes.GET_MIN_OFFSET, {}, first))

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageLog.is_hot: not known, so False."""
        done(False)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""
        fields = {"timestamp": str(timestamp_ms), "boundaryType": "UPPER" if upper else "LOWER"}
        self._number_of(topic, queue_id, codes.SEARCH_OFFSET, fields, done)

    def _number_of(
        self, topic: str, queue_id: int, code: int, more: dict[str, str], done: Callable[[int | Failure], None]
    ) -> None:
        queue = self._queue(topic, queue_id)
        if isinstance(queue, Failure):
            done(queue)
            return
        ask_number(self._servers, topic, queue, code, more, done)

    def _queue(self, topic: str, queue_id: int) -> BrokerQueue | Failure:
        queues = self._cluster.queues(topic)
        if 0 <= queue_id < len(queues):
            return queues[queue_id]
        if not queues:
            return Failure(ErrorCode.TOPIC_NOT_FOUND, f"topic {topic} has no route at the name servers")
        return Failure(ErrorCode.QUEUE_ILLEGAL, f"topic {topic} has no queue {queue_id}")


@final
class _Append:
    """One append: its messages in as few requests as can be, then its changes, then the answer."""

    def __init__(
        self, log: RocketmqLog, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange]
    ) -> None:
        self._log = log
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
        self._number = self._log.begin(self._size)
        for at, run in enumerate(self._runs):
            self._log.send(run, lambda result, at=at: self._sent(at, result))  # type: ignore[misc]

    def _sent(self, at: int, result: list[Placed] | Failure) -> None:
        if isinstance(result, Failure):
            self._failure = self._failure or result
        else:
            self._results[at] = result
        self._left -= 1
        if self._left:
            return
        if self._failure is None and self._changes:
            self._log.store(self._changes, self._stored)
        else:
            self._end(self._failure)

    def _stored(self, result: list[Placed] | Failure) -> None:
        self._end(result if isinstance(result, Failure) else None)

    def _end(self, failure: Failure | None) -> None:
        try:
            if self._done is not None:
                self._done([each for run in self._results for each in run] if failure is None else failure)
        finally:
            self._log.end(self._number, self._size)


def ask_number(
    servers: Brokers, topic: str, queue: BrokerQueue, code: int, more: dict[str, str], done: Callable[[int | Failure], None]
) -> None:
    """Ask a broker for one offset of one queue."""

    def answered(answer: Frame | Failure) -> None:
        if isinstance(answer, Failure):
            done(answer)
            return
        text = (answer.fields() or {}).get("offset", "")
        if answer.code != codes.SUCCESS:
            done(refusal(queue.broker, answer))
        elif not text.lstrip("-").isdigit() or len(text) > 20:
            done(Failure(ErrorCode.STORE_UNAVAILABLE, f"broker {queue.broker} answered without an offset"))
        else:
            done(max(int(text), 0))

    fields = {"topic": topic, "queueId": str(queue.queue_id), "bname": queue.broker, **more}
    servers.ask(queue.broker, BrokerRequest(code, fields), answered)


def _refused(messages: Sequence[Message]) -> Failure | None:
    """NOT_SUPPORTED for a latest value that would be set later: brokers tell nobody when they deliver a delayed message."""
    for message in messages:
        if message.retain != RETAIN_NONE and properties.message_type(message.properties) in ("DELAY", "TRANSACTION"):
            text = "a delayed or transactional message cannot set the latest value of its path at an Apache RocketMQ cluster"
            return Failure(ErrorCode.NOT_SUPPORTED, text)
    return None


def _is_keyed(message: Message) -> bool:
    """True for a message that has its place among others: by its message group, or by its MQTT path."""
    stored = message.properties
    return properties.has(stored, properties.SHARDING_KEY_START) or properties.has(stored, properties.ORIGIN_MQTT_TOPIC_START)


def _wanted(result: ReadResult, request: ReadRequest) -> ReadResult:
    """The result with as many bytes as were asked for, and what the filter matches."""
    size = 0
    for at, data in enumerate(result.records):
        if at and size + len(data) > request.max_bytes:
            result.next_offset = uint64(data, 20)
            del result.records[at:]
            break
        size += len(data)
    wanted = request.wanted
    if wanted is not None and result.records:
        result.records = [data for data in result.records if wanted.matches(Record(data).properties)]
        if not result.records:
            result.status = "NO_MATCH"
    return result


def _has_key(stored: bytes, query: KeyQuery) -> bool:
    if properties.text(stored, properties.UNIQ_KEY) == query.key:
        return True
    return not query.unique and query.key in properties.text(stored, properties.KEYS).split(" ")


def _newest(found: list[bytes], query: KeyQuery) -> list[bytes]:
    """Newest first, as many as were asked for."""
    out: list[bytes] = []
    size = 0
    for data in sorted(found, key=lambda data: Record(data).store_ms, reverse=True)[: query.limit]:
        size += len(data)
        if out and size > query.max_bytes:
            break
        out.append(data)
    return out


def _at_once(_topic: str, then: Callable[[], None]) -> None:
    then()
