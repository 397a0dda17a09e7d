"""The dispatcher: one table from command classes to the use cases' verbs."""

from __future__ import annotations

from collections.abc import Callable

from domain.command import Command, Disconnected, Send
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import Clock, Entropy
from domain.store.message_store import MessageStore
from domain.walk import Walks
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.consume.follow import TopicFollowing
from gateway.usecase.consume.lease_watch import LeaseWatches
from gateway.usecase.consume.leasing_call import LeasingContext
from gateway.usecase.consume.locks import Locks
from gateway.usecase.consume.pull import Pulling
from gateway.usecase.consume.pull_poll import PullContext
from gateway.usecase.consume.read_holds import ReadHolding
from gateway.usecase.consume.receive import Receiving
from gateway.usecase.consume.receive_call import ReceiveContext
from gateway.usecase.consume.settle import Settling
from gateway.usecase.handler import Audited, UseCase, Verb
from gateway.usecase.membership.connections import ConnectionQueries
from gateway.usecase.membership.members import Registry
from gateway.usecase.membership.offsets import Offsets
from gateway.usecase.membership.pending_resets import PendingResets
from gateway.usecase.membership.progress import ProgressQueries
from gateway.usecase.membership.reset import Resetting
from gateway.usecase.publish.identity import MessageIds
from gateway.usecase.publish.latest import LatestChanges
from gateway.usecase.publish.send import Sending
from gateway.usecase.tools.client_inquiries import Relaying
from gateway.usecase.topics_and_groups.counters import MessageCounters
from gateway.usecase.topics_and_groups.deleted_topics import DeletedTopics
from gateway.usecase.topics_and_groups.groups import Groups
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.topics_and_groups.system_topics import SystemTopics
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.long_polls import LiveTails, RightsCheck
from gateway.usecase.waiting.long_questions import LongQuestions
from gateway.usecase.waiting.read_turns import ReadTurns


class Dispatcher:
    """The use cases, composed over the ports. `handle` never raises for a command of a client.

    questions      questions about all topics, groups or queues
    walks          work on each of many clients, members or sessions
    sending        appends messages, for other use cases too
    leasing        the collaborators of all calls that lease messages
    receiving      message-level consumption (POP)
    pulling        queue-level consumption
    following      reading whole topics without a group
    lease_watches  notify readers of their leases that have ended
    reads          shares the turns between reads of messages
    reviews        the `review` functions of use cases with parked calls, to be called when rights have changed, and at the end
    kept_reviews   the `review_kept` functions of use cases with state of users that they may lose: when rights have changed
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        clock: Clock,
        entropy: Entropy,
        cluster: str,
        broker: str,
        policy: NodePolicy,
        tails: LiveTails | None = None,
        refusal: Callable[[], Failure | None] | None = None,
    ) -> None:
        """`tails`: the store reports arrivals only in topics that somebody follows; None: it reports all.
        `refusal`: as in `HeldSends`."""
        log, leases, positions, pulls = store.log, store.leases, store.positions, store.pulls
        metadata, state = store.metadata, store.state
        self.counters = MessageCounters(clock)
        log.listen(self.counters)
        self.questions = LongQuestions(clock)
        self.walks = Walks(clock)
        self.topics = Topics(metadata, clock, policy, self.questions, DeletedTopics(state, clock))
        self.rights = Rights(metadata, state, policy)
        self.groups = Groups(metadata, positions, clock, policy, self.rights, self.questions)
        latest = LatestChanges(policy, clock)
        store.timers.accompany(latest.at_delivery)
        self.sending = Sending(log, self.topics, clock, MessageIds(entropy), latest.at_send, policy, refusal)
        self.dead_letters = DeadLetters(log, leases, positions, self.sending, metadata.group, store.dead_letters)
        self.reads = ReadTurns(clock)
        self.leasing = LeasingContext(leases, self.groups, self.rights, self.dead_letters, clock, self.counters, self.reads)
        self.receiving = Receiving(ReceiveContext(self.leasing, self.topics, policy))
        log.listen(self.receiving)
        self.registry = Registry(self.topics, self.groups, pulls, self.walks)
        resets = PendingResets(clock)
        self.pulling = Pulling(PullContext(store, self.leasing, self.registry, resets, tails), self.topics)
        log.listen(self.pulling)
        self.following = TopicFollowing(log, self.topics, clock, self.reads, metadata.group, tails)
        log.listen(self.following)
        self.lease_watches = LeaseWatches(clock)
        locks = Locks(clock)
        self._audited: Audited | None = None
        self._verbs: dict[type[Command], Verb] = {Disconnected: _disconnected}
        self.reviews: list[Callable[[RightsCheck], None]] = []
        self.kept_reviews: list[Callable[[RightsCheck], None]] = []
        self.add(self.topics, self.groups, self.rights, self.sending, self.dead_letters)
        self.add(self.pulling, self.receiving, self.following, self.lease_watches)
        self.add(
            Settling(log, leases, self.groups, self.sending, locks, policy, self.lease_watches),
            Offsets(log, positions, pulls, self.topics, self.groups, self.registry, resets, self.questions),
            self.registry,
            Relaying(self.registry, self.topics, log, self.sending, clock),
            ConnectionQueries(positions, metadata, self.registry, self.questions),
            ProgressQueries(log, positions, store.outlook, metadata, self.counters, self.rights, self.questions),
            self.counters,
            Resetting(log, positions, metadata, self.registry, resets, self.pulling, self.receiving, self.questions),
            locks,
            ReadHolding(state, self.topics, clock),
        )
        self._system_topics = SystemTopics(metadata, clock, cluster, broker, self.topics.created_ms())

    @property
    def ready(self) -> bool:
        """True once the topics that clients expect to find are there."""
        return self._system_topics.ready

    def write_down(self, audited: Audited) -> None:
        """Have commands written down by `audited`, those of verbs that are added later too."""
        self._audited = audited
        for command, verb in self._verbs.items():
            self._verbs[command] = audited(command, verb)

    def add(self, *use_cases: UseCase) -> None:
        """Merge the verbs of more use cases. Raises ValueError when a verb is taken."""
        for use_case in use_cases:
            for command, verb in use_case.verbs.items():
                if command in self._verbs:
                    raise ValueError(f"two use cases handle {command.__name__}")
                self._verbs[command] = verb if self._audited is None else self._audited(command, verb)
            review = getattr(use_case, "review", None)
            if review is not None:
                self.reviews.append(review)
            kept = getattr(use_case, "review_kept", None)
            if kept is not None:
                self.kept_reviews.append(kept)

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Carry out one command; its answer goes to `connection`, now or later. Refused NOT_SUPPORTED when no verb is there."""
        kind = type(command)
        verb = self._verbs.get(kind)
        if verb is not None:
            if kind is not Send:
                self.sending.gathered.append()  # what came before any other command is in the log before what that does
            verb(connection, command)
            return
        failure = Failure(ErrorCode.NOT_SUPPORTED, f"{type(command).__name__} is not served by this node")
        connection.answer(Refused(getattr(command, "ticket", None), failure))


def _disconnected(connection: ClientConnection, command: Disconnected) -> None:
    connection.end()
