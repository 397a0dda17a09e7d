"""Creation of subscriptions and replacement of their documents, with group and start positions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final, final

from domain.access.principal import Principal
from domain.admin.subscription import PutSubscription, SubscriptionFound
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.ports import Clock, Entropy
from domain.store.store_ports import GroupPositions, MessageLog, Metadata
from domain.subscription.document import encode, parse
from domain.subscription.filters import SubscriptionError
from domain.subscription.subscription import SUBSCRIPTIONS_MAX, WILD_TOPICS_MAX, Status, WebhookSubscription
from domain.topic.topic import Group, Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.topics import Topics
from gateway.usecase.waiting.fan_in import FanIn
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions

ID_BYTES: Final = 9
KEY_BYTES: Final = 24


@final
class SubscriptionCreation:
    """The verb PutSubscription."""

    def __init__(
        self,
        book: WebhookSubscriptions,
        metadata: Metadata,
        topics: Topics,
        log: MessageLog,
        positions: GroupPositions,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._book = book
        self._metadata = metadata
        self._topics = topics
        self._log = log
        self._positions = positions
        self._clock = clock
        self._entropy = entropy
        self.verbs: Verbs = {PutSubscription: self._put}

    def _put(self, connection: ClientConnection, command: PutSubscription) -> None:
        made = self._parsed(command)
        if isinstance(made, Failure):
            connection.answer(Refused(command.ticket, made))
            return

        def answer(result: None | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(SubscriptionFound(command.ticket, self._book.records.get(made.id.encode(), encode(made))))

        def positioned(result: None | Failure) -> None:
            if isinstance(result, Failure):
                answer(result)
            else:
                self._book.store(made, answer)

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
            found = self._book.visible(command, command.id)
            if isinstance(found, Failure):
                return found
            old = found
        elif len(self._book.records) >= SUBSCRIPTIONS_MAX:
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
        """Set the start positions in all existing topics; later ones are read from the start. QUOTA above WILD_TOPICS_MAX."""
        names = self._book.wild.topics(made)
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
        """Set the positions of a group without positions to the ends of the queues: only later messages are delivered."""

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
