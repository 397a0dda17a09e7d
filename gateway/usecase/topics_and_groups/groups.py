"""Consumer groups as configuration: created on first use or by a tool, changed, listed, deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from domain import address
from domain.admin.group import DeleteGroup, FindGroup, GroupFound, GroupList, ListGroups, PutGroup, QueryGroup
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.ports import Clock
from domain.store.store_ports import GroupPositions, Metadata
from domain.topic import attribute
from domain.topic.topic import Group
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered, answered_with
from gateway.usecase.topics_and_groups import every
from gateway.usecase.topics_and_groups.policy import LEAST, STRATEGIES, STRATEGY, NodePolicy
from gateway.usecase.topics_and_groups.rights import Rights
from gateway.usecase.waiting.long_questions import STEP_ITEMS, LongQuestions, Steps

Then = Callable[[Group | Failure], None]


class Groups:
    """The verbs QueryGroup, FindGroup, ListGroups, PutGroup and DeleteGroup, and `ensure` for use cases that need a group."""

    def __init__(
        self,
        metadata: Metadata,
        positions: GroupPositions,
        clock: Clock,
        policy: NodePolicy,
        rights: Rights,
        questions: LongQuestions,
    ) -> None:
        self._metadata = metadata
        self._questions = questions
        self._positions = positions
        self._clock = clock
        self._policy = policy
        self._rights = rights
        self.verbs: Verbs = {
            QueryGroup: self._query,
            FindGroup: self._find,
            ListGroups: self._list,
            PutGroup: self._put,
            DeleteGroup: self._delete,
        }

    def find(self, name: str) -> Group | None:
        """A group by name, None when it does not exist."""
        return self._metadata.group(name)

    def ensure(self, name: str, then: Then) -> None:
        """Call `then` with the group, created when the policy allows. GROUP_ILLEGAL, GROUP_NOT_FOUND, or as the store."""
        group = self._metadata.group(name)
        if group is not None:
            then(group)
            return
        if not address.is_group(name):
            then(Failure(ErrorCode.GROUP_ILLEGAL, f"group {name!r}: 1 to 120 of the characters % | a-z A-Z 0-9 _ -"))
            return
        if not self._policy.create_groups:
            then(Failure(ErrorCode.GROUP_NOT_FOUND, f"group {name} does not exist, and groups are not made on first use here"))
            return
        made = Group(name, created_ms=self._clock.wall_ms())
        self._metadata.put_group(made, lambda result: then(made if result is None else result))

    def ensure_share(self, share: str, name: str, then: Then) -> None:
        """Call `then` with group `name` of shared subscriptions, made with the settings of group `share` if it does not exist.

        Its `share.strategy` stays that of `share` until it has one itself. NOT_ALLOWED when either may not consume; else as
        `ensure` for `share`.
        """

        def ready(group: Group | Failure) -> None:
            if isinstance(group, Group) and not group.consume_enable:
                then(Failure(ErrorCode.NOT_ALLOWED, f"group {group.name} may not consume"))
            else:
                then(group)

        def shared(group: Group | Failure) -> None:
            known = self._metadata.group(name)
            if isinstance(group, Failure) or not group.consume_enable or name == share:
                ready(group)
            elif known is not None:
                ready(known)
            else:
                attributes = {key: value for key, value in group.attributes.items() if key != STRATEGY}
                made = replace(group, name=name, attributes=attributes, created_ms=self._clock.wall_ms())
                self._metadata.put_group(made, lambda result: then(made if result is None else result))

        self.ensure(share, shared)

    def _query(self, connection: ClientConnection, command: QueryGroup) -> None:
        self.ensure(command.group, answered_with(connection, command.ticket, GroupFound))

    def _find(self, connection: ClientConnection, command: FindGroup) -> None:
        group = self._metadata.group(command.group)
        if group is None:
            failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"group {command.group} does not exist")
            connection.answer(Refused(command.ticket, failure))
        else:
            connection.answer(GroupFound(command.ticket, group))

    def _list(self, connection: ClientConnection, command: ListGroups) -> None:
        self._questions.ask(connection, self._all(connection, command))

    def _all(self, connection: ClientConnection, command: ListGroups) -> Steps:
        found: list[Group] = []
        forbidden: dict[str, list[str]] = {}
        for group in every.groups(self._metadata, command.after):
            found.append(group)
            topics = self._rights.forbidden(group.name)
            if topics:
                forbidden[group.name] = topics
            if len(found) == command.limit:
                break
            if len(found) % STEP_ITEMS == 0:
                yield
        connection.answer(GroupList(command.ticket, found, forbidden))

    def _put(self, connection: ClientConnection, command: PutGroup) -> None:
        group = command.group
        if not address.is_group(group.name):
            failure = Failure(ErrorCode.GROUP_ILLEGAL, f"group {group.name!r}: 1 to 120 of the characters % | a-z A-Z 0-9 _ -")
            connection.answer(Refused(command.ticket, failure))
            return
        if group.attributes.get(STRATEGY, LEAST) not in STRATEGIES:
            failure = Failure(ErrorCode.ARGUMENT_ILLEGAL, f"attribute {STRATEGY} is one of {', '.join(STRATEGIES)}")
            connection.answer(Refused(command.ticket, failure))
            return
        known = self._metadata.group(group.name)
        created_ms = known.created_ms if known is not None else self._clock.wall_ms()
        attributes = attribute.altered(known.attributes if known is not None else {}, group.attributes)
        if isinstance(attributes, Failure):
            connection.answer(Refused(command.ticket, attributes))
            return

        self._metadata.put_group(
            replace(group, created_ms=created_ms, attributes=attributes), answered(connection, Done(command.ticket))
        )

    def _delete(self, connection: ClientConnection, command: DeleteGroup) -> None:
        if self._metadata.group(command.group) is None:
            failure = Failure(ErrorCode.GROUP_NOT_FOUND, f"group {command.group} does not exist")
            connection.answer(Refused(command.ticket, failure))
            return

        self._rights.forget(command.group)
        self._positions.drop_group(command.group, answered(connection, Done(command.ticket)))
