"""Rights to read and write that administrators set: for a group, for a group and a topic, for the broker as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.admin.broker import ChangeNodePolicy
from domain.admin.group import (
    CountWaitingMessages,
    DeleteGroup,
    GroupList,
    ListGroups,
    PutGroup,
    Readable,
    SetReadable,
    WaitingCount,
)
from domain.admin.message import Peek, Peeked
from domain.admin.topic import PutTopic
from domain.command import AwaitMessages, Command, Pull, Receive, Send, SendBack
from domain.errors import ErrorCode
from domain.event import Done, MessagesWaiting, Pulled, Received, Refused, Sent
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import PERM_WRITE, Group, Topic
from gateway.usecase.tools.inspect import Inspecting
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only

PULL = Pull(1, "g", "T", 0, 0, 32, 1_000_000)
RECEIVE = Receive(1, "g", "T", 32, 60_000, from_first=True)
BROADCAST = Pull(1, "g", "T", 0, 0, 32, 1_000_000, broadcast=True)
LATE_PULL = Pull(2, "g", "T", 0, 1, 32, 1_000_000, wait_ms=10_000)
AWAIT = AwaitMessages(1, "g", "T")
PEEK = Peek(1, "g", "T", -1, 32)
COUNT = CountWaitingMessages(1, "g", "T", -1)
LATE_RECEIVE = Receive(2, "g", "T", 32, 60_000, wait_ms=10_000)


def copied(command: Command) -> Command:
    """A copy of a command, since use cases change commands."""
    return type(command)(**{name: getattr(command, name) for name in command.__dataclass_fields__})  # type: ignore[attr-defined]


@pytest.fixture
def place(bench: Bench) -> Bench:
    """One message in queue 0 of T, and group g."""
    bench.furnish(1, 0)
    return bench


def forbid(place: Bench, what: str) -> None:
    """Forbid the group to read the topic."""
    if what == "group":
        assert place.ask(PutGroup(1, Group("g", consume_enable=False))) == [Done(1)]
    elif what == "topic":
        assert place.ask(SetReadable(1, "g", "T", False)) == [Readable(1, False)]
    else:
        assert place.ask(ChangeNodePolicy(1, {"permission": "2"})) == [Done(1)]


def allow(place: Bench, what: str) -> None:
    """Allow the group to read the topic again."""
    if what == "group":
        place.ask(PutGroup(1, Group("g")))
    elif what == "topic":
        assert place.ask(SetReadable(1, "g", "T", True)) == [Readable(1, True)]
    else:
        place.ask(ChangeNodePolicy(1, {"permission": "6"}))


@pytest.mark.parametrize("command", [PULL, RECEIVE], ids=["pull", "receive"])
@pytest.mark.parametrize("what", ["group", "topic", "broker"])
def test_who_may_not_read_is_refused_until_it_may_again(place: Bench, what: str, command: Command) -> None:
    forbid(place, what)
    assert code(place.ask(copied(command))) is ErrorCode.NOT_ALLOWED
    allow(place, what)
    [event] = place.ask(copied(command))
    assert isinstance(event, Pulled | Received)
    assert len(event.records if isinstance(event, Pulled) else event.messages) == 1


@pytest.mark.parametrize("command", [AWAIT, PEEK, COUNT], ids=["notification", "peek", "polling-info"])
@pytest.mark.parametrize("what", ["group", "topic", "broker"])
def test_who_may_not_read_may_not_look_either(place: Bench, what: str, command: Command) -> None:
    store, handler = place.store, place.handler
    handler.add(
        Inspecting(store.log, store.outlook, store.metadata, handler.topics, handler.rights, place.clock, store.figures)
    )
    forbid(place, what)
    assert code(place.ask(copied(command))) is ErrorCode.NOT_ALLOWED
    allow(place, what)
    [event] = place.ask(copied(command))
    assert event in (MessagesWaiting(1, True), WaitingCount(1, 0)) or (isinstance(event, Peeked) and len(event.records) == 1)
    place.ask(PutTopic(1, Topic("T", 2, 2, PERM_WRITE)))
    assert code(place.ask(copied(command))) is ErrorCode.NOT_ALLOWED
    place.ask(PutTopic(1, Topic("T", 2, 2)))
    assert code(place.ask(replace(copied(command), queue_id=2))) is ErrorCode.QUEUE_ILLEGAL  # type: ignore[type-var]
    assert code(place.ask(replace(copied(command), topic="nothing"))) is ErrorCode.TOPIC_NOT_FOUND  # type: ignore[type-var]


def test_a_group_that_may_not_broadcast_is_refused_to_those_of_its_members_that_do(place: Bench) -> None:
    assert isinstance(place.ask(copied(BROADCAST))[0], Pulled)
    recorder = EventRecorder()
    assert place.ask(replace(BROADCAST, offset=1, wait_ms=10_000), recorder) == []
    assert place.ask(PutGroup(1, Group("g", broadcast_enable=False))) == [Done(1)]
    assert code(place.ask(copied(BROADCAST))) is ErrorCode.NOT_ALLOWED
    assert isinstance(place.ask(copied(PULL))[0], Pulled)
    place.handler.sending.submit([Message("T", b"late", queue_id=0)], None)
    place.clock.run_for(50)
    event = only(Refused, recorder.take())
    assert event.failure.code is ErrorCode.NOT_ALLOWED


def test_without_the_right_to_write_nothing_is_given_back(place: Bench) -> None:
    pulled = only(Pulled, place.ask(copied(PULL)))
    back = SendBack(1, "g", Record(pulled.records[0]).physical_offset, 0)
    place.ask(ChangeNodePolicy(1, {"permission": "4"}))
    assert code(place.ask(copied(back))) is ErrorCode.NOT_ALLOWED
    place.ask(ChangeNodePolicy(1, {"permission": "6"}))
    assert place.ask(copied(back)) == [Done(1)]


@pytest.mark.parametrize("command", [LATE_PULL, LATE_RECEIVE], ids=["pull", "receive"])
@pytest.mark.parametrize("what", ["group", "topic", "broker"])
def test_who_waits_when_the_right_is_taken_away_gets_nothing_of_what_comes(place: Bench, what: str, command: Command) -> None:
    recorder = EventRecorder()
    if isinstance(command, Receive):
        place.receive("g", "T")
    assert place.ask(copied(command), recorder) == []
    forbid(place, what)
    place.handler.sending.submit([Message("T", b"late", queue_id=0)], None)
    place.clock.run_for(50)
    event = only(Refused, recorder.take())
    assert event.failure.code is ErrorCode.NOT_ALLOWED


def test_other_groups_and_topics_are_free_and_a_group_that_is_made_anew_too(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("U", 1, 1)))
    forbid(place, "topic")
    assert place.ask(SetReadable(2, "g", "T")) == [Readable(2, False)]
    assert place.ask(SetReadable(2, "g", "U")) == [Readable(2, True)]
    assert len(place.receive("h", "T").messages) == 1
    place.send("U", "u")
    assert len(place.receive("g", "U").messages) == 1
    place.ask(PutGroup(1, Group("g", retry_max=3)))
    listed = only(GroupList, place.ask(ListGroups(3)))
    assert listed.forbidden == {"g": ["T"]}, "a changed group keeps what was forbidden"
    assert place.ask(DeleteGroup(1, "g")) == [Done(1)]
    place.ask(PutGroup(1, Group("g")))
    assert place.ask(SetReadable(2, "g", "T")) == [Readable(2, True)]


def test_only_what_is_there_can_be_forbidden(place: Bench) -> None:
    assert code(place.ask(SetReadable(1, "nobody", "T", False))) is ErrorCode.GROUP_NOT_FOUND
    assert code(place.ask(SetReadable(1, "g", "nothing", False))) is ErrorCode.TOPIC_NOT_FOUND
    assert place.ask(SetReadable(1, "nobody", "nothing")) == [Readable(1, True)]
    assert place.ask(SetReadable(1, "nobody", "nothing", True)) == [Readable(1, True)]


def test_a_broker_without_write_takes_nothing_for_ordered_topics_alone(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("orders", 1, 1, order=True)))
    place.ask(ChangeNodePolicy(1, {"permission": "4"}))
    assert code(place.ask(Send(1, [Message("orders", b"x")]))) is ErrorCode.NOT_ALLOWED
    assert isinstance(place.send("T", "x"), Sent), "whoever has an old route is served"
    assert len(place.receive("g", "T").messages) == 2
    place.ask(ChangeNodePolicy(1, {"permission": "2"}))
    assert isinstance(place.send("orders", "x"), Sent)


@pytest.mark.parametrize("text", ["0", "1", "3", "5", "7", "06", "", "read"])
def test_permissions_are_write_and_read_and_both(place: Bench, text: str) -> None:
    assert code(place.ask(ChangeNodePolicy(1, {"permission": text}))) is ErrorCode.ARGUMENT_ILLEGAL
