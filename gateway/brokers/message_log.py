"""`MessageLog` over the brokers of a cluster: sending, reading by offset, bounds, search by time and by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import Message
from domain.message.once import OnceKey
from domain.message.record import Record
from domain.octets import uint64
from domain.ports import Clock
from domain.store.store_ports import ReadResult, StateChange, StoreListener
from domain.store.store_request import KeyQuery, ReadRequest
from gateway.brokers.appends import Appended, Appends
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.live_tail import Tail
from gateway.brokers.once_keys import OnceKeys
from gateway.brokers.pull_reply import ask_number, placed, pull_request, pulled, split
from gateway.brokers.queue_numbers import BrokerQueue
from gateway.brokers.refusal import BrokerAnswerError, refusal
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

PULL_RECORDS_MAX: Final = 1_024


@final
class RocketmqLog:
    """`MessageLog`.

    tail   source of notifications. Reads of a topic wait until the start of its tail is known: later records come by the tail
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, appends: Appends, once: OnceKeys, clock: Clock) -> None:
        self.tail = Tail(servers, cluster, clock, self.arrived)
        self.listeners: list[StoreListener] = []
        self._servers = servers
        self._cluster = cluster
        self._appends = appends
        self._once = once

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self.listeners.append(listener)

    def freed(self, group: str, topic: str) -> None:
        """Notify the listeners that the group may lease messages of the topic."""
        for listener in self.listeners:
            listener.freed(group, topic)

    def arrived(self, topic: str, place: int, records: Sequence[bytes]) -> None:
        """Notify the listeners of new records."""
        for listener in self.listeners:
            listener.arrived(topic, place, records)

    def append(self, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageLog.append. Messages of one append that no batch can hold together are stored or refused each on its own."""
        self._appends.append(messages, done, changes)

    def append_once(
        self, key: OnceKey, messages: Sequence[Message], done: Appended | None, changes: Sequence[StateChange] = ()
    ) -> None:
        """MessageLog.append_once, on this gateway (gateway.brokers.once_keys)."""
        self._once.append(key, lambda stored: self._appends.append(messages, stored, changes), done)

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

        self.tail.started(request.topic, lambda: self._servers.ask(queue.broker, asked, answered))

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

        def ask(broker: str, answered: Callable[[list[bytes] | Failure], None]) -> None:
            request = Request(codes.QUERY_MESSAGE, {**fields, "bname": broker})
            self._servers.ask(broker, request, lambda answer: answered(self._found(broker, answer, query)))

        def asked(answers: dict[tuple[str], list[bytes]], failure: Failure | None) -> None:
            found = [record for records in answers.values() for record in records]
            # A broker that is away keeps its own messages from being found; what others have is an answer.
            done(failure if failure is not None and not found else _newest(found, query))

        FanIn(ask, asked).start((broker,) for broker in brokers)

    def _found(self, broker: str, answer: Frame | Failure, query: KeyQuery) -> list[bytes] | Failure:
        if isinstance(answer, Failure):
            return answer
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

        self.tail.started(topic, lambda: self._number_of(topic, queue_id, codes.GET_MIN_OFFSET, {}, first))

    def notified(self, topic: str, queue_id: int) -> int:
        """See MessageLog."""
        return self.tail.notified(topic, queue_id)

    def late_ms(self) -> int:
        """MessageLog.late_ms."""
        return self.tail.late_ms()

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
