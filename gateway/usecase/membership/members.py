"""Membership of consumer groups by heartbeat. All members of a group are notified of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from domain import address, limits
from domain.client.membership import Heartbeat, Leave, Members, MembersChanged, Membership, QueryMembers, Subscription
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.store.store_ports import MemberPulls
from domain.topic.topic import Group
from domain.walk import Walk, Walks
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.membership.group_members import GroupMembers, Member
from gateway.usecase.topics_and_groups.groups import Groups
from gateway.usecase.topics_and_groups.topics import Topics

SILENCE_NS: Final = 120 * limits.SECOND_NS
"""Time without a heartbeat after which a member is removed."""
SWEEP_NS: Final = 10 * limits.SECOND_NS
SWEPT: Final = 64
"""Members that one step of a sweep looks at."""
INHERITED_NS: Final = 60 * limits.SECOND_NS
"""Time in which a leader uses subscriptions of heartbeats that it got as a follower: clients send the next one within 30 s."""


@dataclass(slots=True)
class ConnectedClient:
    """One client as its last heartbeat described it.

    language     of its client library
    version      of its client library, as a number of RocketMQ
    address      "host:port", "" when unknown
    seen_ms      wall-clock time of the heartbeat
    """

    connection: ClientConnection
    language: str
    version: int
    address: str
    seen_ms: int


class Registry:
    """The verbs Heartbeat, Leave and QueryMembers.

    A member is removed when its connection closes, when it leaves, and 120 s after its last heartbeat.

    on_producer   called with the group of a producer that is new, or that goes on by another connection
    _joined       client id -> the groups of which it is a member
    _produces     client id -> its producer groups
    _notifying    groups whose members are being notified of a change; True: there was another one since
    """

    def __init__(self, topics: Topics, groups: Groups, pulls: MemberPulls, walks: Walks) -> None:
        self._pulls = pulls
        self._topics = topics
        self._groups = groups
        self._walks = walks
        self._clock = clock = walks.clock
        self._members: dict[str, GroupMembers] = {}
        self._joined: dict[str, dict[str, None]] = {}
        self._producers: dict[str, dict[str, ClientConnection]] = {}
        self._produces: dict[str, dict[str, None]] = {}
        self._notifying: dict[str, bool] = {}
        self._clients: dict[str, ConnectedClient] = {}
        self._clients_of: dict[ClientConnection, set[str]] = {}
        self._inherited: Mapping[tuple[str, str], Subscription] = {}
        self.on_producer: list[Callable[[str], None]] = []
        clock.call_at(clock.monotonic_ns() + SWEEP_NS, self._sweep)
        self.verbs: Verbs = {Heartbeat: self._heartbeat, Leave: self._leave, QueryMembers: self._query}

    def members(self, group: str) -> Mapping[str, Member]:
        """Client id -> member of one group."""
        found = self._members.get(group)
        return {} if found is None else found.all

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """The subscription of `group` to `topic` with the newest version of all members', None when no member has one.

        While a new leader has no member of the group, that of a heartbeat which it got before.
        """
        members = self._members.get(group)
        return self._inherited.get((group, topic)) if members is None else members.newest(topic)

    def inherit(self, heard: Mapping[tuple[str, str], Subscription]) -> None:
        """(group, topic) -> subscription, as received from members while this replica followed. Used for INHERITED_NS."""

        def forget() -> None:
            self._inherited = {}

        self._inherited = heard
        self._clock.call_at(self._clock.monotonic_ns() + INHERITED_NS, forget)

    def producers(self, group: str) -> Mapping[str, ClientConnection]:
        """Client id -> connection of the producers of one group."""
        return self._producers.get(group, {})

    def producer_groups(self) -> list[str]:
        """Producer groups with at least one client, sorted."""
        return sorted(self._producers)

    def client(self, client_id: str) -> ConnectedClient | None:
        """A connected client by its id, None when it is not connected."""
        return self._clients.get(client_id)

    def groups(self) -> list[str]:
        """Groups with at least one member, sorted."""
        return sorted(self._members)

    def _heartbeat(self, connection: ClientConnection, command: Heartbeat) -> None:
        for membership in command.consumers:
            if not address.is_group(membership.group):
                failure = Failure(ErrorCode.GROUP_ILLEGAL, f"group {membership.group!r} is not a name that a group can have")
                if command.wait:
                    connection.answer(Refused(command.ticket, failure))
                return
        connection.client_id = command.client_id
        self._track(connection, command)
        for name in command.producers:
            self._produce(name, command.client_id, connection)
        for membership in command.consumers:
            self._join(connection, command, membership)
        if command.wait:
            connection.answer(Done(command.ticket))

    def _produce(self, name: str, client_id: str, connection: ClientConnection) -> None:
        producers = self._producers.setdefault(name, {})
        known = producers.get(client_id)
        producers[client_id] = connection
        self._produces.setdefault(client_id, {})[name] = None
        if known is not connection:
            for listener in self.on_producer:
                listener(name)

    def _join(
        self, connection: ClientConnection, command: Heartbeat, membership: Membership, until_disconnected: bool = False
    ) -> None:
        group, client_id = membership.group, command.client_id
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = GroupMembers()
        known = members.all.get(client_id)
        if known is not None and command.keep_subscriptions and not membership.subscriptions:
            membership.subscriptions = known.membership.subscriptions
        now = self._clock.monotonic_ns()
        members.put(client_id, Member(connection, membership, command.language, command.version, now, until_disconnected))
        self._joined.setdefault(client_id, {})[group] = None
        if known is None:
            self._groups.ensure(group, self._prepare_retry)
        if known is None or _topics(known.membership) != _topics(membership):
            self._notify(group)
            if known is not None and membership.subscriptions:
                self._pulls.release(group, client_id, _topics(membership))
        self._pulls.renew(group, client_id, known is not None and known.connection is not connection)

    def set_memberships(
        self, connection: ClientConnection, client_id: str, client: str, memberships: Sequence[Membership]
    ) -> None:
        """Make a client whose protocol has no heartbeats a member of exactly these groups.

        `client`: its address, "host:port" or "". The memberships end with its connection.
        """
        heartbeat = Heartbeat(None, client_id, consumers=list(memberships), wait=False, address=client)
        wanted = {membership.group for membership in memberships}
        for group in sorted(self._joined.get(client_id, ())):
            if group not in wanted and self._members[group].all[client_id].connection is connection:
                self._drop(group, client_id)
        if memberships:
            self._track(connection, heartbeat)
        for membership in memberships:
            self._join(connection, heartbeat, membership, until_disconnected=True)

    def _prepare_retry(self, group: Group | Failure) -> None:
        """Create the retry topic of a group: pull consumers need its route before the first retry."""
        if isinstance(group, Group):
            self._topics.ensure(address.retry_topic(group.name), lambda _: None)

    def _leave(self, connection: ClientConnection, command: Leave) -> None:
        everything = command.consumer_group == "" and command.producer_group == ""
        groups = sorted(self._joined.get(command.client_id, ())) if everything else [command.consumer_group]
        for group in groups:
            self._drop(group, command.client_id)
        for name in sorted(self._produces.get(command.client_id, ())) if everything else [command.producer_group]:
            self._drop_producer(name, command.client_id)
        connection.answer(Done(command.ticket))

    def _query(self, connection: ClientConnection, command: QueryMembers) -> None:
        members = self.members(command.group)
        if members:
            connection.answer(Members(command.ticket, sorted(members)))
        else:
            failure = Failure(ErrorCode.GROUP_OFFLINE, f"no consumer for this group, {command.group}")
            connection.answer(Refused(command.ticket, failure))

    def _track(self, connection: ClientConnection, command: Heartbeat) -> None:
        client_id = command.client_id
        self._clients[client_id] = ConnectedClient(
            connection, command.language, command.version, command.address, self._clock.wall_ms()
        )  # fmt: skip
        clients = self._clients_of.get(connection)
        if clients is None:
            self._clients_of[connection] = {client_id}
            connection.on_close.append(lambda: self._disconnected(connection))
        else:
            clients.add(client_id)

    def _disconnected(self, connection: ClientConnection) -> None:
        for client_id in sorted(self._clients_of.pop(connection, ())):
            for group in sorted(self._joined.get(client_id, ())):
                if self._members[group].all[client_id].connection is connection:
                    self._drop(group, client_id)
            for name in sorted(self._produces.get(client_id, ())):
                if self._producers[name].get(client_id) is connection:
                    self._drop_producer(name, client_id)
            client = self._clients.get(client_id)
            if client is not None and client.connection is connection:
                del self._clients[client_id]

    def _drop(self, group: str, client_id: str) -> None:
        members = self._members.get(group)
        if members is None or not members.remove(client_id):
            return
        _without(self._joined, client_id, group)
        self._pulls.release(group, client_id, ())
        if members.all:
            self._notify(group)
        else:
            del self._members[group]

    def _drop_producer(self, name: str, client_id: str) -> None:
        producers = self._producers.get(name)
        if producers is None or producers.pop(client_id, None) is None:
            return
        _without(self._produces, client_id, name)
        if not producers:
            del self._producers[name]

    def _notify(self, group: str) -> None:
        found = self._groups.find(group)
        if found is not None and not found.notify:
            return
        if group in self._notifying:
            self._notifying[group] = True
        else:
            self._notifying[group] = False
            self._walks.begin(self._notify_all(group))

    def _notify_all(self, group: str) -> Walk:
        """Notify all members of a change: of several changes in one walk once more, when it is at its end."""
        again = True
        while again:
            self._notifying[group] = False
            members = self._members.get(group)
            for client_id in () if members is None else list(members.notified):
                member = None if members is None else members.notified.get(client_id)
                if member is not None:
                    member.connection.answer(MembersChanged(None, group))
                    yield
            again = self._notifying[group]
        del self._notifying[group]

    def _sweep(self) -> None:
        self._walks.begin(self._drop_silent())
        self._clock.call_at(self._clock.monotonic_ns() + SWEEP_NS, self._sweep)

    def _drop_silent(self) -> Walk:
        """Remove the members without a heartbeat for SILENCE_NS, SWEPT of one group in a step."""
        for group in list(self._members):
            members = self._members.get(group)
            for number, client_id in enumerate(() if members is None else list(members.notified), 1):
                member = None if members is None else members.notified.get(client_id)
                if member is not None and self._clock.monotonic_ns() - member.seen_ns > SILENCE_NS:
                    self._drop(group, client_id)
                if number % SWEPT == 0:
                    yield
            yield


def _without(of: dict[str, dict[str, None]], client_id: str, name: str) -> None:
    """Remove a name of a client, and the client with its last one."""
    names = of[client_id]
    del names[name]
    if not names:
        del of[client_id]


def _topics(membership: Membership) -> list[str]:
    return sorted(subscription.topic for subscription in membership.subscriptions)
