"""`MessageStore` over an Apache RocketMQ cluster, with a local store for data that a cluster cannot store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure
from domain.histogram import Histogram
from domain.message import property as properties
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.ports import Clock
from domain.store.message_store import MessageStore
from domain.store.outlook import Outlook
from domain.store.store_ports import DeadLetterMoves, GroupPositions, Leases, MemberPulls, MessageLog, Metadata, ReadResult
from domain.store.store_request import PullRequest
from domain.transaction import Timers, Transactions
from domain.walk import Walks
from gateway.apache.heartbeats import RocketmqHeartbeats
from gateway.apache.lag.group_topics import GroupTopics
from gateway.apache.lag.search import GroupSearch
from gateway.apache.lag.walk import RocketmqReceivable
from gateway.apache.pop import request as requests
from gateway.apache.pop.leases import RocketmqLeases
from gateway.apache.topics.await_metadata import AwaitMetadata
from gateway.apache.topics.broker_capabilities import ClusterCapabilities
from gateway.apache.topics.capability_watch import CapabilityWatch
from gateway.apache.topics.metadata import RocketmqMetadata
from gateway.apache.transactions import RocketmqTimers, RocketmqTransactions
from gateway.brokers.appends import Appends
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.message_log import RocketmqLog
from gateway.brokers.once_keys import OnceKeys
from gateway.brokers.positions import RocketmqPositions
from gateway.brokers.queue_choice import QueueChoice
from gateway.brokers.refusal import refusal
from gateway.connection.handler import Handler
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

_NO_PULLS = (
    "a group behind Apache RocketMQ receives by POP or pulls by the remoting protocol, never both, since brokers keep no common"
    " account of them: consumers that pull reach their brokers through this gateway's remoting port"
)
SEND_BACK_MS: Final = 3_000
_REFUSED: Final[Mapping[int, ErrorCode]] = {codes.SYSTEM_ERROR: ErrorCode.RECEIPT_INVALID}
"""The broker has no message at that place of its log."""


@final
class RocketmqDeadLetters:
    """`DeadLetterMoves`: the broker copies the message (CONSUMER_SEND_MSG_BACK), then the lease is settled."""

    def __init__(self, brokers: Brokers, leases: Leases) -> None:
        self._brokers = brokers
        self._leases = leases

    def move(
        self,
        group: str,
        topic: str,
        receipt: Receipt,
        record: bytes | None,
        done: Callable[[None | Failure], None] | None,
    ) -> None:
        """DeadLetterMoves.move. RECEIPT_INVALID: the receipt does not say where in the log the message is."""

        def notify(result: None | Failure) -> None:
            if done is not None:
                done(result)

        if receipt.physical_offset < 0:
            notify(Failure(ErrorCode.RECEIPT_INVALID, "the receipt has no offset in the log of its broker"))
            return

        def settled(result: list[Failure | None] | Failure) -> None:
            notify(result if isinstance(result, Failure) else None)

        def copied(answer: Frame | Failure) -> None:
            if isinstance(answer, Failure):
                notify(answer)
            elif answer.code != codes.SUCCESS:
                notify(refusal(receipt.broker, answer, _REFUSED))
            else:
                self._leases.settle(group, requests.real_topic(group, topic, receipt), [receipt], settled)

        message_id = "" if record is None else properties.text(Record(record).properties, properties.UNIQ_KEY)
        request = requests.send_back_to_dead_letters(group, topic, receipt, message_id)
        self._brokers.ask(receipt.broker, request, copied, SEND_BACK_MS)


@final
class RocketmqPulls:
    """`MemberPulls`. Consumers of the remoting protocol do not come here: their requests are relayed to their brokers."""

    def pull(self, request: PullRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MemberPulls.pull: NOT_SUPPORTED."""
        done(Failure(ErrorCode.NOT_SUPPORTED, _NO_PULLS))

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MemberPulls.report: NOT_SUPPORTED."""
        if done is not None:
            done(Failure(ErrorCode.NOT_SUPPORTED, _NO_PULLS))

    def renew(self, group: str, member: str, reconnected: bool) -> None:
        """MemberPulls.renew: does nothing, since pulls are refused."""

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MemberPulls.release: does nothing, since pulls are refused."""


@final
class RocketmqStore:
    """`MessageStore`. Messages, positions, leases, timers and transactions are the cluster's; `state` is the local store's."""

    def __init__(
        self,
        servers: Brokers,
        cluster: ClusterMap,
        metadata: RocketmqMetadata,
        local: MessageStore,
        choice: QueueChoice,
        facts: ClusterCapabilities,
        clock: Clock,
        client_id: str,
    ) -> None:
        self._fact_watch = CapabilityWatch(servers, cluster, clock, facts, self._promise)
        self._servers = servers
        self._cluster = cluster
        self._local = local
        self._walks = Walks(clock)
        metadata.durability = facts.durability
        self.state = local.state
        self.lite_queues = local.lite_queues
        self.metadata: Metadata = metadata
        self._metadata = metadata
        self._transactions = RocketmqTransactions(servers, self._produces)
        self._appends = Appends(servers, cluster, local.log, choice, clock, self._transactions.half_stored)
        self._log = RocketmqLog(servers, cluster, self._appends, OnceKeys(local.state, clock), clock)
        self.log: MessageLog = self._log
        self.positions: GroupPositions = RocketmqPositions(servers, cluster)
        leases = RocketmqLeases(servers, cluster, clock, self._log.freed, self._reads)
        self.leases: Leases = leases
        self.pulls: MemberPulls = RocketmqPulls()
        self._pairs = GroupTopics()
        self._search = GroupSearch(servers, cluster, clock, self._pairs)
        self.outlook: Outlook = RocketmqReceivable(servers, cluster, clock, self._pairs)
        self.timers: Timers = RocketmqTimers(servers)
        self.transactions: Transactions = self._transactions
        self.dead_letters: DeadLetterMoves | None = RocketmqDeadLetters(servers, leases)
        self.heartbeats = RocketmqHeartbeats(servers, cluster, clock, client_id, leases.reading, self._has_producers)
        self._producers: Callable[[str], bool] | None = None
        self.tail = self._log.tail

    def begin(self, has_producers: Callable[[str], bool]) -> None:
        """Clients are served from now on. `has_producers`: True for a producer group with a producer at this node."""
        self._producers = has_producers
        self.heartbeats.start()
        self._fact_watch.start()
        self._search.start()

    @property
    def facts(self) -> ClusterCapabilities:
        """What the brokers have said of themselves."""
        return self._fact_watch.facts

    def _promise(self, facts: ClusterCapabilities) -> None:
        """Brokers have other settings now."""
        self._metadata.durability = facts.durability

    def _reads(self, group: str, topic: str) -> None:
        """A group begins to receive from a topic here."""
        self._pairs.add(group, topic)
        self.heartbeats.reads()

    def _produces(self, group: str) -> None:
        """A producer group has a producer here."""
        self.heartbeats.produces(group)

    def _has_producers(self, group: str) -> bool:
        return self._producers is not None and self._producers(group)  # there are none before clients are served

    def before(self, handler: Handler) -> Handler:
        """The handler that commands go to: it waits for topics and groups that are not known yet."""
        return AwaitMetadata(handler, self._metadata, self.tail, self._walks)

    @property
    def broken(self) -> Failure | None:
        """MessageStore.broken."""
        return self._local.broken

    def timed(self) -> tuple[int, int]:
        """MessageStore.timed: a cluster does not report it."""
        return 0, 0

    def figures(self) -> dict[str, float]:
        """MessageStore.figures: of the local store, and of the connections to the cluster."""
        return {**self._local.figures(), **self._servers.figures(), **self.tail.figures()}

    def unanswered_bytes(self) -> int:
        """MessageStore.unanswered_bytes."""
        return self._appends.unanswered_bytes + self._local.unanswered_bytes()

    def accepted_bytes(self) -> int:
        """MessageStore.accepted_bytes: of the local store. What brokers write is not known."""
        return self._local.accepted_bytes()

    def histograms(self) -> dict[str, Histogram]:
        """MessageStore.histograms."""
        return self._local.histograms()

    def drain(self, done: Callable[[], None]) -> None:
        """MessageStore.drain."""
        self.heartbeats.stop()
        self._fact_watch.stop()
        self._search.stop()
        self.tail.stop()
        self._metadata.stop()
        self._cluster.stop()
        self._local.drain(done)

    def close(self) -> None:
        """MessageStore.close."""
        self._servers.close()
        self._local.close()
