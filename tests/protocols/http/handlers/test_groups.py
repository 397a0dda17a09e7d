"""Groups in pages."""

from __future__ import annotations

import json

import pytest

from domain.admin.group import GroupList, ListGroups
from domain.command import Command
from domain.event import Event
from domain.topic.topic import Group
from tests.protocols.http.stage import Client, parse, request

NAMES = [f"g{number:02}" for number in range(20)]


@pytest.mark.parametrize("old", [False, True])
def test_a_page_asks_for_its_groups_and_one_more(old: bool) -> None:
    """`old`: the store's node is of an earlier version, which lists all groups."""

    def react(command: Command) -> Event:
        assert isinstance(command, ListGroups)
        asked.append((command.after, command.limit))
        names = [name for name in NAMES if name > command.after][: command.limit]
        return GroupList(command.ticket, [Group(name) for name in (NAMES if old else names)])

    asked: list[tuple[str, int]] = []
    found: list[str] = []
    after = ""
    while True:
        [answer] = parse(Client(react).send(request("GET", f"/v1/groups?after={after}&max=7")).output)
        body = json.loads(answer.body)
        found += [each["name"] for each in body["groups"]]
        if "next" not in body:
            break
        after = body["next"]
    assert found == NAMES
    assert asked == [("", 8), ("g06", 8), ("g13", 8)]
