"""All topics and groups (codes 21, 201, 305): in pages, for clients that ask for them, as mqadmin does since 5.4.

A client asks for at most `maxTopicNum` topics from number `topicSeq` on (`maxGroupNum`, `groupSeq`), by name, until it has
`totalTopicNum` of them, or all but one: it takes a single one that is left for none. A page has one more then. It begins again
when the data version changes, so pages have a fixed one. Where one page has all, it has the version of the newest: tools notice
changes by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from domain import address
from domain.admin.group import GroupList, ListGroups
from domain.admin.topic import ListTopics, TopicList
from domain.event import Event, Refused
from domain.topic.topic import Group, Topic
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, Render, Rendering, Ticket, success
from protocols.remoting.tools import admin
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame

Listed = TypeVar("Listed", Topic, Group)
TOPIC: Final = "Topic"
GROUP: Final = "Group"
"""Kinds, as the fields of requests name them."""
PAGE_MAX: Final = 2_000
"""Topics or groups of one page."""
FIRST_MAX: Final = 10_000_000
"""Largest number of the first topic or group of a page."""
TOO_LONG: Final = {
    codes.GET_ALL_TOPICS: "ask for pages, with topicSeq and maxTopicNum, as mqadmin 5.4 does, or about one topic (351)",
    codes.GET_ALL_GROUPS: "ask for pages, with groupSeq and maxGroupNum, as mqadmin 5.4 does, or about one group (352)",
}
"""What a client can do that has asked for all of them, when these are too many for one answer."""
PREFIX: Final = "rmq_sys_"
PREFIXED_MAX: Final = 64
"""Topics from PREFIX on that are looked at."""
_KNOWN: Final = (*address.SYSTEM_TOPICS, *address.UNSENDABLE_TOPICS)


class Page(NamedTuple):
    """The part of all topics or groups for which a client asks.

    first     number of its first topic or group
    most      how many it may have
    skipped   how many of those that the node lists come before the first one
    after     name behind which the node begins to list
    """

    first: int
    most: int
    skipped: int
    after: str

    @property
    def limit(self) -> int:
        """Number of those that the node lists: two more than the page may have show whether one is left, or more."""
        return self.skipped + self.most + 2


def _page(client: Client, frame: Frame, kind: str) -> Page | None:
    """The page of a request; None: it is for all. One that follows the last page of this connection begins behind that."""
    args = Arguments(frame)
    first = min(max(args.number(f"{kind.lower()}Seq", 0), 0), FIRST_MAX)
    most = min(max(args.number(f"max{kind}Num", 0), 0), PAGE_MAX)
    if not most:
        return None
    of, number, name = client.listed
    return Page(first, most, 0, name) if (of, number) == (kind, first) else Page(first, most, first, "")


def _taken(client: Client, kind: str, page: Page, listed: Sequence[Listed]) -> tuple[Sequence[Listed], int, int]:
    """(what of `listed` is in the page, time of its data version, number of all for the client)."""
    left = len(listed) - page.skipped
    count = page.most if left > page.most + 1 else max(left, 0)
    found = listed[page.skipped : page.skipped + count]
    if found:
        client.listed = (kind, page.first + count, found[-1].name)
    newest_ms = max((each.created_ms for each in found), default=0) if page.first == 0 and count == left else 0
    return found, newest_ms, page.first + count + (2 if count < left else 0)


def _asked(
    client: Client, frame: Frame, kind: str, listing: type[ListTopics] | type[ListGroups],
    render: Render, render_page: Render,
) -> Outcome:  # fmt: skip
    """The command for all topics or groups, or for those of the page that the client asks for."""
    page = _page(client, frame, kind)
    if page is None:
        return (listing(Ticket(frame, render)),)
    return (listing(Ticket(frame, render_page, page), page.after, page.limit),)


def topics(client: Client, frame: Frame) -> Outcome:
    """Request code 21 -> ListTopics."""
    return _asked(client, frame, TOPIC, ListTopics, admin.topics, _topics)


def _topics(client: Client, ticket: Ticket, event: TopicList) -> Rendering:
    return admin.topic_table(ticket, *_taken(client, TOPIC, ticket.request_data, event.topics))


def groups(client: Client, frame: Frame) -> Outcome:
    """Request code 201 -> ListGroups."""
    return _asked(client, frame, GROUP, ListGroups, admin.groups, _groups)


def _groups(client: Client, ticket: Ticket, event: GroupList) -> Rendering:
    page: Page = ticket.request_data
    found, newest_ms, total = _taken(client, GROUP, page, event.page(page.after, page.limit))
    forbidden = {each.name: event.forbidden[each.name] for each in found if each.name in event.forbidden}
    return admin.group_table(ticket, GroupList(None, list(found), forbidden), newest_ms, total)


def system_topics(client: Client, frame: Frame) -> Outcome:
    """Request code 305 -> a ListTopics of one topic for each name that a system topic has, and one for their prefix."""
    node = client.node
    names = sorted({*_KNOWN, node.cluster, node.broker, f"{node.cluster}_REPLY_TOPIC"})
    multi = MultiTicket(Ticket(frame, success), len(names) + 1, _system_topics)
    wanted = [ListTopics(multi.part(at), _before(name), 1) for at, name in enumerate(names)]
    return [*wanted, ListTopics(multi.part(len(names)), _before(PREFIX), PREFIXED_MAX)]


def _before(name: str) -> str:
    """The text behind which the topics begin with the first one from `name` on."""
    return name[:-1] + chr(ord(name[-1]) - 1) + "\x7f"


def _system_topics(client: Client, ticket: Ticket, events: Sequence[Event]) -> bytes:
    node = client.node
    found: set[str] = set()
    for event in events:
        if isinstance(event, Refused):
            return ticket.refused(event.failure)
        if isinstance(event, TopicList):
            found.update(each.name for each in event.topics)
    names = [each for each in sorted(found) if each in (node.cluster, node.broker) or address.is_system_topic(each)]
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"topicList": names}))
