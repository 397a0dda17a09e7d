"""All topics and groups (codes 21, 201, 305): in pages, for clients that ask for them, as mqadmin does since 5.4.

A client asks for at most `maxTopicNum` topics from number `topicSeq` on (`maxGroupNum`, `groupSeq`), by name, until it has
`totalTopicNum` of them, or all but one: it takes a single one that is left for none. A page has one more then. It begins again
when the data version changes, so pages have a fixed one. Where one page has all, it has the version of the newest: tools notice
changes by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain import address
from domain.admin.group import GroupList, ListGroups
from domain.admin.topic import ListTopics, TopicList
from domain.event import Event, Refused
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, MultiTicket, Outcome, Rendering, Ticket, success
from protocols.remoting.tools import admin
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame

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


def _page(frame: Frame, kind: str) -> tuple[int, int]:
    """(number of the first one, number of them); 0 of them: the request is for all."""
    args = Arguments(frame)
    first = min(max(args.number(f"{kind.lower()}Seq", 0), 0), FIRST_MAX)
    return first, min(max(args.number(f"max{kind}Num", 0), 0), PAGE_MAX)


def topics(client: Client, frame: Frame) -> Outcome:
    """Request code 21 -> ListTopics. The page behind the last one of this connection begins behind its last name."""
    first, most = _page(frame, "Topic")
    if not most:
        return (ListTopics(Ticket(frame, admin.topics)),)
    number, name = client.listed
    if first == number:
        return (ListTopics(Ticket(frame, _topics, (first, most, 0)), name, most + 2),)
    return (ListTopics(Ticket(frame, _topics, (first, most, first)), "", first + most + 2),)


def _topics(client: Client, ticket: Ticket, event: TopicList) -> Rendering:
    first, most, skipped = ticket.request_data
    left = len(event.topics) - skipped
    count = most if left > most + 1 else max(left, 0)
    found = event.topics[skipped : skipped + count]
    if found:
        client.listed = (first + count, found[-1].name)
    total = first + count + (2 if count < left else 0)
    newest_ms = max((each.created_ms for each in found), default=0) if first == 0 and count == left else 0
    return admin.topic_table(ticket, found, newest_ms, total)


def groups(_client: Client, frame: Frame) -> Outcome:
    """Request code 201 -> ListGroups."""
    first, most = _page(frame, "Group")
    return (ListGroups(Ticket(frame, _groups if most else admin.groups, (first, most))),)


def _groups(_client: Client, ticket: Ticket, event: GroupList) -> Rendering:
    first, most = ticket.request_data
    total = len(event.groups)
    found = event.groups[first : first + most + (first + most + 1 == total)]
    forbidden = {each.name: event.forbidden[each.name] for each in found if each.name in event.forbidden}
    newest_ms = max((each.created_ms for each in found), default=0) if len(found) == total else 0
    return admin.group_table(ticket, GroupList(None, found, forbidden), newest_ms, total)


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
