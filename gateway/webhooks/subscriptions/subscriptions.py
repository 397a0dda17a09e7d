"""Subscriptions of a store group: lookup, listing and deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.access.principal import Principal
from domain.admin.subscription import DeleteSubscription, QuerySubscriptions, SubscriptionFound, SubscriptionList
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, Metadata, State
from domain.subscription.document import decode, encode
from domain.subscription.subscription import GROUP_PREFIX, WILD_TOPICS_MAX, Status, WebhookSubscription
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps
from gateway.webhooks.subscriptions.wildcard_sources import WildSources

SPACE: Final = "webhook"
"""State space: id -> record of a subscription."""
PAGE_MAX: Final = 1_000


@final
class WebhookSubscriptions:
    """The verbs QuerySubscriptions and DeleteSubscription. SubscriptionCreation and SubscriptionStatus write to it by `store`.

    statuses   id -> status of every subscription
    wild       topics of the sources that begin with a wildcard
    changed    called with the id of each subscription that was created, changed or deleted
    """

    def __init__(
        self, state: State, metadata: Metadata, positions: GroupPositions, clock: Clock, questions: LongQuestions
    ) -> None:
        self._questions = questions
        self._positions = positions
        self._space = FollowedSpace(state, SPACE, bytes)
        self._decoded: dict[bytes, WebhookSubscription] = {}
        self.statuses: dict[bytes, Status] = {}
        self.changed: list[Callable[[str], None]] = []
        self._wild: dict[str, None] = {}
        self.wild = WildSources(metadata, clock, lambda: list(self._wild))
        state.follow(SPACE, self._notify)
        self.verbs: Verbs = {QuerySubscriptions: self._query, DeleteSubscription: self._delete}

    @property
    def records(self) -> Mapping[bytes, bytes]:
        """Id -> record of every subscription."""
        return self._space.values

    def topics(self, subscription: WebhookSubscription) -> list[str]:
        """The topics that a subscription reads, at most WILD_TOPICS_MAX."""
        return self.wild.topics(subscription)[:WILD_TOPICS_MAX] if subscription.wild else [subscription.topic]

    def claimed(self, key: bytes) -> bytes | None:
        """The record of a subscription for its owner, including the topics of a wildcard source. None: no subscription has this
        id."""
        record = self._space.values.get(key)
        found = self.find(key.decode()) if key.decode() in self._wild else None
        return record if record is None or found is None else self.wild.record(record, found)

    def find(self, identity: str) -> WebhookSubscription | None:
        """The subscription with an id; None: there is none."""
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
        """A subscription that the principal of a command may see: its own, or any for a Super user; else the failure
        SUBSCRIPTION_NOT_FOUND."""
        found = self.find(identity)
        if found is None or not _owns(command, found):
            return Failure(ErrorCode.SUBSCRIPTION_NOT_FOUND, f"there is no subscription {identity[:80]}")
        return found

    def _notify(self, key: bytes, value: bytes | None) -> None:
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
        """Store a new or changed subscription."""
        self._space.put({subscription.id.encode(): encode(subscription)}, done)

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


def _owns(command: Command, subscription: WebhookSubscription) -> bool:
    principal: Principal | None = getattr(command, "principal", None)
    return principal is None or principal.privileged or principal.user == subscription.user
