"""The subscriptions of a store group: made, read, changed, deleted; suspended when their user loses its rights."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, final

from domain.admin.subscription import (
    ChangeStatus,
    DeleteSubscription,
    GrantConsent,
    PutSubscription,
    QuerySubscriptions,
    SubscriptionFound,
    SubscriptionList,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Entropy
from domain.principal import Principal
from domain.store_ports import GroupPositions, MessageLog, Metadata, State
from domain.subscription.document import decode, encode, parse
from domain.subscription.filters import SubscriptionError
from domain.subscription.subscription import (
    GROUP_PREFIX,
    SUBSCRIPTIONS_MAX,
    WILD_TOPICS_MAX,
    Status,
    WebhookSubscription,
)
from domain.topic import Group, Topic
from gateway.access.revocation import RightsCheck
from gateway.connection.client_connection import CLOSED_DRIVER, ClientConnection
from gateway.usecase.catalog.followed_space import FollowedSpace
from gateway.usecase.catalog.topics import Topics
from gateway.usecase.fan_in import FanIn
from gateway.usecase.handler import Verb
from gateway.usecase.long_questions import STEP_ITEMS, LongQuestions, Steps
from gateway.webhooks.catalog.wild import WildSources

SPACE: Final = "webhook"
"""State space: id -> record of a subscription."""
ID_BYTES: Final = 9
KEY_BYTES: Final = 24
MEANWHILE_MS: Final = 60_000
"""A consent of this age may have come after the question that an owner waits for the answer to."""
PAGE_MAX: Final = 1_000
PAUSE_NS: Final = MILLISECOND_NS
"""Pause between two turns of a review."""


@final
class SubscriptionBook:
    """The verbs PutSubscription, QuerySubscriptions, DeleteSubscription, ChangeStatus and GrantConsent.

    statuses   id -> status of every subscription
    _check     says why a user may not have a subscription; None: access is not controlled
    wild       what sources that begin with a wildcard read
    changed    called with the id of a subscription that was made, changed or deleted
    """

    def __init__(
        self,
        state: State,
        metadata: Metadata,
        topics: Topics,
        log: MessageLog,
        positions: GroupPositions,
        clock: Clock,
        entropy: Entropy,
        questions: LongQuestions,
    ) -> None:
        self._questions = questions
        self._reviewing: Iterator[bytes] = iter(())
        self._check: RightsCheck | None = None
        self._metadata = metadata
        self._topics = topics
        self._log = log
        self._positions = positions
        self._clock = clock
        self._entropy = entropy
        self._space = FollowedSpace(state, SPACE, bytes)
        self._decoded: dict[bytes, WebhookSubscription] = {}
        self.statuses: dict[bytes, Status] = {}
        self.changed: list[Callable[[str], None]] = []
        self._wild: dict[str, None] = {}
        self.wild = WildSources(metadata, clock, lambda: list(self._wild))
        state.follow(SPACE, self._tell)

    def verbs(self) -> Mapping[type[Command], Verb]:
        """PutSubscription, QuerySubscriptions, DeleteSubscription, ChangeStatus, GrantConsent."""
        return {
            PutSubscription: self._put,
            QuerySubscriptions: self._query,
            DeleteSubscription: self._delete,
            ChangeStatus: self._change,
            GrantConsent: self._grant,
        }

    @property
    def records(self) -> Mapping[bytes, bytes]:
        """Id -> record of every subscription."""
        return self._space.values

    def topics(self, subscription: WebhookSubscription) -> list[str]:
        """The topics that a subscription reads."""
        return self.wild.topics(subscription)[:WILD_TOPICS_MAX] if subscription.wild else [subscription.topic]

    def claimed(self, key: bytes) -> bytes | None:
        """The record of a subscription for its owner, with the topics of its wildcard. None: no subscription has this id."""
        record = self._space.values.get(key)
        found = self.find(key.decode()) if key.decode() in self._wild else None
        return record if record is None or found is None else self.wild.record(record, found)

    def find(self, identity: str) -> WebhookSubscription | None:
        """One subscription; None: there is none."""
        record = self._space.values.get(identity.encode("utf-8", "replace"))
        if record is None:
            return None
        found = self._decoded.get(record)
        if found is None:
            if len(self._decoded) >= PAGE_MAX:
                self._decoded.clear()
            found = self._decoded[record] = decode(record)
        return found

    def visible(self, command: Command, identity: str) -> WebhookSubscription | Failure:
        """A subscription that the principal of a command may see: its own, or any for a Super user. SUBSCRIPTION_NOT_FOUND."""
        found = self.find(identity)
        if found is None or not _owns(command, found):
            return Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, f"there is no subscription {identity[:80]}")
        return found

    def _tell(self, key: bytes, value: bytes | None) -> None:
        identity = key.decode()
        found = None if value is None else self.find(identity)
        if found is None:
            self.statuses.pop(key, None)
        else:
            self.statuses[key] = found.status
        if found is not None and found.wild:
            self._wild[identity] = None
        else:
            self._wild.pop(identity, None)
        for changed in self.changed:
            changed(key.decode())

    def store(self, subscription: WebhookSubscription, done: Callable[[None | Failure], None]) -> None:
        """Store a subscription as it is to be from now on."""
        self._space.put({subscription.id.encode(): encode(subscription)}, done)

    # Making and changing

    def _put(self, connection: ClientConnection, command: PutSubscription) -> None:
        made = self._parsed(command)
        if isinstance(made, Failure):
            connection.answer(Refused(command.ticket, made))
            return

        def answer(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(SubscriptionFound(command.ticket, self._space.values.get(made.id.encode(), encode(made))))

        def positioned(result: None | Failure) -> None:
            if isinstance(result, Failure):
                answer(result)
            else:
                self.store(made, answer)

        def grouped(result: None | Failure) -> None:
            if isinstance(result, Failure):
                answer(result)
            elif made.wild:
                self._begin_wild(made, positioned)
            else:
                self._topics.ensure(made.topic, topic)

        def topic(result: Topic | Failure) -> None:
            if isinstance(result, Failure):
                answer(result)
            elif made.from_first or command.id:
                positioned(None)
            else:
                self._begin_at_end(made.group, result, positioned)

        if self._metadata.group(made.group) is not None:
            grouped(None)
        else:
            retries = max(16, made.retry.retries + 1)
            self._metadata.put_group(Group(made.group, retry_max=retries, created_ms=self._clock.wall_ms()), grouped)

    def _parsed(self, command: PutSubscription) -> WebhookSubscription | Failure:
        principal: Principal | None = getattr(command, "principal", None)
        user, host = (principal.user, principal.host) if principal is not None else ("", "")
        old: WebhookSubscription | None = None
        if command.id:
            found = self.visible(command, command.id)
            if isinstance(found, Failure):
                return found
            old = found
        elif len(self._space.values) >= SUBSCRIPTIONS_MAX:
            return Failure(ErrorCode.QUOTA, f"there are {SUBSCRIPTIONS_MAX} subscriptions; delete one first")
        identity = command.id or self._entropy.token(ID_BYTES).hex()
        try:
            made = parse(json.loads(command.document), identity, user, self._clock.wall_ms())
        except SubscriptionError as error:
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, str(error))
        except (ValueError, RecursionError):
            return Failure(ErrorCode.ARGUMENT_ILLEGAL, "the subscription is no JSON")
        status = Status.PENDING if made.verify else Status.ACTIVE
        made = replace(made, consent_key=self._entropy.token(KEY_BYTES).hex())
        if old is None:
            return replace(made, host=host, status=status)
        if made.sink == old.sink:
            key, at_ms, rate = old.consent_key or made.consent_key, old.consented_ms, old.granted_rate
            made = replace(made, consent_key=key, consented_ms=at_ms, granted_rate=rate)
        if made.sink == old.sink and old.status is not Status.SUSPENDED:
            status = old.status
        return replace(
            made,
            group=old.group,
            user=old.user,
            host=old.host,
            status=status,
            version=old.version + 1,
            created_ms=old.created_ms,
        )

    def _begin_wild(self, made: WebhookSubscription, done: Callable[[None | Failure], None]) -> None:
        """Set the positions in all topics that there are; in a later one it begins at the first message."""
        names = self.wild.topics(made)
        if len(names) > WILD_TOPICS_MAX:
            text = f"there are {len(names)} topics, and a source that begins with a wildcard reads at most {WILD_TOPICS_MAX}"
            done(Failure(ErrorCode.QUOTA, f"{text}: name the topic"))
            return

        def begun(_: dict[tuple[str], None], failure: Failure | None) -> None:
            done(failure)

        def begin(name: str, then: Callable[[None | Failure], None]) -> None:
            topic = self._topics.find(name)
            if topic is None:
                then(None)
            else:
                self._begin_at_end(made.group, topic, then)

        ask: FanIn[None, str] = FanIn(begin, begun)
        ask.start((name,) for name in (() if made.from_first else names))

    def _begin_at_end(self, group: str, topic: Topic, done: Callable[[None | Failure], None]) -> None:
        """Set the positions of a group that has none to the ends of the queues: what is sent from now on is delivered."""

        def bounds(found: dict[tuple[int], tuple[int, int]], failure: Failure | None) -> None:
            if failure is not None:
                done(failure)
                return
            offsets = [(topic.name, queue, end) for (queue,), (_, end) in found.items()]
            self._positions.commit(group, offsets, done)

        def known(result: int | Failure) -> None:
            if isinstance(result, Failure):
                queues = [(queue,) for queue in range(topic.read_queues)]
                ask: FanIn[tuple[int, int], int] = FanIn(lambda queue, then: self._log.bounds(topic.name, queue, then), bounds)
                ask.start(queues)
            else:
                done(None)

        self._positions.offset(group, topic.name, 0, known)

    def _change(self, connection: ClientConnection, command: ChangeStatus) -> None:
        found = self.find(command.id) if command.epoch >= 0 else self.visible(command, command.id)
        if not isinstance(found, WebhookSubscription):
            failure = found or Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, f"there is no subscription {command.id[:80]}")
            connection.answer(Refused(command.ticket, failure))
            return
        status = Status(command.status)
        if status is Status.ACTIVE and command.epoch < 0 and self._check is not None:
            # Nothing else asks for the rights of its user: deliveries are the gateway's own.
            lost = _lost(self._check, found)
            if lost is not None:
                connection.answer(Refused(command.ticket, lost))
                return
        if command.epoch >= 0 and found.status is not Status.ACTIVE and found.status is not Status.PENDING:
            connection.answer(SubscriptionFound(command.ticket, encode(found)))  # a person was faster
            return
        if status is Status.ACTIVE and found.verify and command.epoch < 0:
            status = Status.PENDING
        at_ms = found.consented_ms
        if status is Status.PENDING and command.epoch >= 0 and self._clock.wall_ms() - at_ms < MEANWHILE_MS:
            connection.answer(SubscriptionFound(command.ticket, encode(found)))  # the sink was faster
            return
        if status in (Status.PENDING, Status.SUSPENDED):
            at_ms = 0  # it has to consent anew
        changed = replace(
            found, status=status, reason=command.reason[:1_000], version=found.version + 1, consented_ms=at_ms
        )  # fmt: skip

        def answer(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(SubscriptionFound(command.ticket, encode(changed)))

        self.store(changed, answer)

    def _grant(self, connection: ClientConnection, command: GrantConsent) -> None:
        found = self.find(command.id)
        given = command.key.encode("utf-8", "replace")
        if found is None or not found.consent_key or not hmac.compare_digest(found.consent_key.encode(), given):
            # The same for an id and for a key that are not known: nobody learns which ids there are.
            failure = Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, "there is no subscription with this id and key")
            connection.answer(Refused(command.ticket, failure))
            return
        status = Status.ACTIVE if found.status is Status.PENDING else found.status
        now_ms = self._clock.wall_ms()
        changed = replace(
            found, status=status, consented_ms=now_ms, granted_rate=command.rate, version=found.version + 1
        )  # fmt: skip

        def answer(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(Done(command.ticket))

        self.store(changed, answer)

    # Reading and deleting

    def _query(self, connection: ClientConnection, command: QuerySubscriptions) -> None:
        if command.id:
            found = self.visible(command, command.id)
            if isinstance(found, Failure):
                connection.answer(Refused(command.ticket, found))
            else:
                connection.answer(SubscriptionFound(command.ticket, self._space.values[command.id.encode()]))
            return
        self._questions.ask(connection, self._listed(connection, command))

    def _listed(self, connection: ClientConnection, command: QuerySubscriptions) -> Steps:
        limit = max(1, min(command.limit, PAGE_MAX))
        after = command.after.encode("utf-8", "replace")
        out: list[bytes] = []
        for at, key in enumerate(sorted(key for key in self._space.values if key > after), 1):
            if len(out) > limit:
                break
            each = self.find(key.decode())
            if each is not None and _owns(command, each):
                out.append(self._space.values[key])
            if at % STEP_ITEMS == 0:
                yield
        connection.answer(SubscriptionList(command.ticket, out[:limit], len(out) > limit))

    def _delete(self, connection: ClientConnection, command: DeleteSubscription) -> None:
        found = self.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return

        def deleted(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            elif found.group == GROUP_PREFIX + found.id:
                self._positions.drop_group(found.group, lambda _: connection.answer(Done(command.ticket)))
            else:
                connection.answer(Done(command.ticket))

        self._space.put({found.id.encode(): None}, deleted)

    # Rights

    def review(self, check: RightsCheck) -> None:
        """Users, policies or rules have changed: suspend the subscriptions whose users may not have them any more.

        STEP_ITEMS of them in a turn. A further change begins anew. It is called at the start, too, when the configuration may
        have changed.
        """
        self._check = check
        self._reviewing = iter(list(self._space.values))
        self._review_some(check, self._reviewing)

    def _review_some(self, check: RightsCheck, keys: Iterator[bytes]) -> None:
        if keys is not self._reviewing:
            return
        for key in islice(keys, STEP_ITEMS):
            self._judge(check, key)
        left = next(keys, None)
        if left is None:
            return
        self._judge(check, left)
        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, lambda: self._review_some(check, keys))

    def _judge(self, check: RightsCheck, key: bytes) -> None:
        found = self.find(key.decode())
        if found is None or found.status is Status.SUSPENDED:
            return
        failure = _lost(check, found)
        if failure is not None:
            reason = f"the rights of {found.user} have changed: {failure.text}"
            changed = replace(found, status=Status.SUSPENDED, reason=reason[:1_000], version=found.version + 1)
            self.store(changed, lambda _: None)


def _lost(check: RightsCheck, subscription: WebhookSubscription) -> Failure | None:
    """Why the user of a subscription may not have it any more; None: it may, or access was not controlled when it was made."""
    if not subscription.user:
        return None
    connection = ClientConnection("http", CLOSED_DRIVER, Principal(subscription.user, subscription.host, epoch=-1))
    published = [topic for topic in (subscription.reply_topic, subscription.dead_letter_topic) if topic]
    # The group that was made for it is its own, and needs no right.
    group = "" if subscription.group == GROUP_PREFIX + subscription.id else subscription.group
    return check(connection, PutSubscription(None, b"", subscription.source, group, published, subscription.id))


def _owns(command: Command, subscription: WebhookSubscription) -> bool:
    principal: Principal | None = getattr(command, "principal", None)
    return principal is None or principal.privileged or principal.user == subscription.user
