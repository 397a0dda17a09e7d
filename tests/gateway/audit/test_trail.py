"""The audit log: what is written of logins, refusals and changes, and what is not."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
from typing import Any

import pytest

import domain
from domain.access.access import AccessPolicy, Grant, User
from domain.access.principal import Principal
from domain.admin.group import RedriveGroup
from domain.admin.topic import DeleteTopic, QueryTopic
from domain.admin.user import CreateUser, PutPolicies, UpdateUser
from domain.command import Command, TicketedCommand
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from gateway.access.needs import TABLE
from gateway.audit.actions import ACTIONS
from gateway.audit.audit_sink import SINK
from gateway.audit.trail import KINDS_MAX, AuditTrail
from gateway.connection.client_connection import WATCHED_MAX, ClientConnection
from tests.connection_driver import RecordingDriver
from tests.simulation.kit.clock import VirtualClock

WRONG = Failure(ErrorCode.NOT_AUTHENTICATED, "the user name or the password is wrong")
DENIED = Failure(ErrorCode.NOT_ALLOWED, "User:bob has no permission for Pub on Topic:a from 10.0.0.9", denied=True)
BOB = Principal("bob", "10.0.0.9", False, True, 0, 0, 1)


class Kept:
    """Keeps lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, text: str) -> None:
        self.lines.append(json.loads(text))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    found = Kept()
    monkeypatch.setattr(SINK, "write", found.write)
    return found


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.trail = AuditTrail(self.clock, 60)
        self.connection = ClientConnection("http", RecordingDriver(), BOB)
        self.connection.host = "10.0.0.9"
        self.commands: list[Command] = []

    def ask(self, command: Command) -> None:
        verb = self.trail.verb(type(command), lambda connection, asked: self.commands.append(asked))
        verb(self.connection, command)


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def test_the_first_login_of_a_kind_is_a_line_and_the_others_are_a_count(kept: Kept) -> None:
    scene = Scene()
    for _ in range(5):
        scene.trail.login("10.0.0.9", "bob", WRONG)
        scene.trail.login("10.0.0.9", "bob", None)
    scene.trail.login("10.0.0.8", "bob", WRONG)
    assert [without(line, "time") for line in kept.lines] == [
        {"event": "login", "user": "bob", "from": "10.0.0.9", "outcome": "not-authenticated", "detail": WRONG.text},
        {"event": "login", "user": "bob", "from": "10.0.0.9", "outcome": "ok"},
        {"event": "login", "user": "bob", "from": "10.0.0.8", "outcome": "not-authenticated", "detail": WRONG.text},
    ]
    assert kept.lines[0]["time"].endswith("Z")
    kept.lines.clear()
    scene.clock.run_for(61_000)
    assert [(line["from"], line["outcome"], line["count"], line["seconds"]) for line in kept.lines] == [
        ("10.0.0.9", "not-authenticated", 4, 60), ("10.0.0.9", "ok", 4, 60),
    ]  # fmt: skip
    scene.clock.run_for(61_000)
    assert len(kept.lines) == 2, "nothing has recurred since"
    scene.trail.login("10.0.0.9", "bob", None)
    assert len(kept.lines) == 3, "it is the first one again"


def test_refusals_name_user_client_and_what_was_asked(kept: Kept) -> None:
    scene = Scene()
    scene.connection.client_id = "thermometer"
    for _ in range(3):
        scene.trail.refused(scene.connection, BOB, "Send", DENIED)
    [line] = kept.lines
    assert without(line, "time") == {
        "event": "refusal", "user": "bob", "from": "10.0.0.9", "outcome": "not-allowed", "protocol": "http",
        "action": "Send", "client": "thermometer", "detail": DENIED.text,
    }  # fmt: skip


def test_a_change_says_who_from_where_what_and_how_it_ended(kept: Kept) -> None:
    scene = Scene()
    scene.ask(DeleteTopic(7, "orders"))
    assert kept.lines == [], "it is not answered yet"
    scene.connection.answer(Done(6))
    scene.connection.answer(Done(7))
    scene.ask(DeleteTopic(8, "orders"))
    scene.connection.answer(Refused(8, Failure(ErrorCode.TOPIC_NOT_FOUND, "there is none")))
    assert [without(line, "time") for line in kept.lines] == [
        {
            "event": "change", "action": "topic.delete", "user": "bob", "from": "10.0.0.9", "protocol": "http", "client": "",
            "target": {"topic": "orders"}, **outcome,
        }
        for outcome in ({"outcome": "ok"}, {"outcome": "topic-not-found", "detail": "there is none"})
    ]  # fmt: skip
    assert len(scene.commands) == 2
    assert scene.connection.watched is None


def test_secrets_are_never_said(kept: Kept) -> None:
    scene = Scene()
    policy = AccessPolicy("Topic:a", ("Pub",), sources=("10.0.0.0/8",))
    for ticket, command in enumerate([
        CreateUser(0, User("ann", "wonderland", True)), UpdateUser(1, "ann", "wonderland"),
        PutPolicies(2, Grant("ann", (policy,))),
    ]):  # fmt: skip
        scene.ask(command)
        scene.connection.answer(Done(ticket))
    assert [line["target"] for line in kept.lines] == [
        {"user": "ann", "super": True, "enabled": True}, {"user": "ann", "password": "changed"},
        {"user": "ann", "policies": ["Allow Pub on Topic:a from 10.0.0.0/8"], "count": 1},
    ]  # fmt: skip
    assert "wonderland" not in json.dumps(kept.lines)


def test_a_change_whose_client_leaves_before_the_answer_has_a_line(kept: Kept) -> None:
    scene = Scene()
    scene.ask(DeleteTopic(7, "orders"))
    scene.connection.end()
    [line] = kept.lines
    assert line["outcome"] == "unknown"
    scene.connection.answer(Done(7))
    assert len(kept.lines) == 1


def test_what_is_counted_and_what_waits_is_bounded(kept: Kept) -> None:
    scene = Scene()
    for number in range(KINDS_MAX + 100):
        scene.trail.login("10.0.0.9", "x" * 1_000 + str(number), None)
        scene.trail.login(f"10.0.{number // 250}.{number % 250}", "bob", WRONG)
    assert KINDS_MAX <= len(scene.trail._counts) <= KINDS_MAX + 2, "one for each outcome of those that find no room"
    assert max(len(line["user"]) for line in kept.lines) <= 256
    for number in range(2 * WATCHED_MAX):
        scene.ask(DeleteTopic(10_000 + number, "t" * 10_000))
    assert scene.connection.watched is not None
    assert len(scene.connection.watched) == WATCHED_MAX
    assert len(kept.lines[-1]["target"]["topic"]) <= 256


def test_names_of_a_clients_choice_do_not_fill_the_log(kept: Kept) -> None:
    scene = Scene()
    for number in range(KINDS_MAX + 5_000):
        scene.trail.login("10.0.0.9", f"u{number}", WRONG)
    assert len(kept.lines) == KINDS_MAX + 1
    assert (kept.lines[-1]["user"], kept.lines[-1]["from"]) == ("", "")
    assert "counted together" in kept.lines[-1]["detail"]
    scene.clock.run_for(61_000)
    assert kept.lines[-1]["count"] == 4_999, "none is lost"
    scene.clock.run_for(121_000)
    scene.trail.login("10.0.0.9", "bob", WRONG)
    assert kept.lines[-1]["user"] == "bob", "there is room again"


@pytest.mark.parametrize("name", ["a\nb\r\u2028{}", "\x00\x1b[2J", "half a pair \ud800"])
def test_a_name_is_one_line_whatever_is_in_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    texts: list[str] = []
    monkeypatch.setattr(SINK, "write", texts.append)
    scene = Scene()
    scene.trail.login("10.0.0.9", name, WRONG)
    scene.ask(DeleteTopic(7, name))
    scene.connection.answer(Done(7))
    assert [text.count("\n") + text.count("\r") + text.count("\x1b") for text in texts] == [0, 0]
    assert json.loads(texts[0])["user"] == json.loads(texts[1])["target"]["topic"] == name
    "".join(texts).encode()


def test_a_number_of_any_size_is_written(kept: Kept) -> None:
    scene = Scene()
    scene.ask(RedriveGroup(7, "g", 10**40))
    scene.connection.answer(Done(7))
    assert kept.lines[0]["target"]["limit"] == 10**40


def test_lists_of_a_clients_choice_are_cut(kept: Kept) -> None:
    scene = Scene()
    policy = AccessPolicy("Topic:" + "a" * 10_000, ("Pub",), sources=("10.0.0.0/8",) * 1_000)
    scene.ask(PutPolicies(2, Grant("ann", (policy,) * 100)))
    scene.connection.answer(Done(2))
    assert len(json.dumps(kept.lines)) < 6_000
    assert kept.lines[0]["target"]["count"] == 100


def test_refusals_at_the_admin_port_are_counted(kept: Kept) -> None:
    scene = Scene()
    for _ in range(5):
        scene.trail.operated("POST /v1/admin/reload", "ann", "10.0.0.9", "not-allowed")
        scene.trail.operated("POST /v1/admin/reload", "root", "10.0.0.9", "ok")
    assert [line["event"] for line in kept.lines] == ["refusal", *["change"] * 5]


def test_counts_are_written_a_part_in_each_turn(kept: Kept) -> None:
    scene = Scene()
    for number in range(2_000):
        for _ in range(2):
            scene.trail.login("10.0.0.9", f"u{number}", None)
    kept.lines.clear()
    scene.clock.run_for(61_000)
    assert len(kept.lines) == 2_000
    assert all(line["count"] == 1 for line in kept.lines)


def test_nothing_is_made_without_a_file() -> None:
    scene = Scene()
    armed = scene.clock.armed
    scene.trail.login("10.0.0.9", "bob", WRONG)
    scene.trail.refused(scene.connection, BOB, "Send", DENIED)
    scene.ask(DeleteTopic(7, "orders"))
    assert scene.connection.watched is None
    assert scene.clock.armed == armed
    assert not scene.trail._counts


def test_reads_are_not_written(kept: Kept) -> None:
    scene = Scene()
    scene.ask(QueryTopic(1, "orders"))
    assert scene.connection.watched is None
    assert kept.lines == []


READS = ("Query", "List", "Find", "Search", "Count", "View", "Peek", "Read", "Check")
OF_CLIENTS = {
    "Pull", "FollowTopic", "AwaitSettled", "HoldQueues", "Receive", "Acknowledge", "Extend", "DeadLetter", "SendRetry",
    "CommitOffsets", "Heartbeat", "Leave", "LockQueues", "Watch", "DeleteLatest", "AwaitMessages", "ConsumeDirectly",
    "SendReply", "Attach", "Unsubscribe", "ReleasePacketIds", "RecallMessage", "ResumeTransaction", "Reauthenticate",
}  # fmt: skip
OF_NODES = {
    "RegisterBroker", "RegisterPage", "UnregisterBroker", "RenewBroker", "HearReplica", "GreetController", "TellController",
    "HearGateway", "Follow", "LogHeld", "ReserveOscoreRun", "HoldOscoreContext",
}  # fmt: skip


def test_every_command_that_changes_something_has_an_action() -> None:
    """A new command is of a client or of a node, reads, or is written down."""
    for kind in TABLE:
        name = kind.__name__
        assert name.startswith(READS) or name in OF_CLIENTS | OF_NODES or kind in ACTIONS, name


def test_every_action_shows_its_command() -> None:
    """The fields that are shown are those of the class."""
    for module in pkgutil.walk_packages(domain.__path__, "domain."):
        importlib.import_module(module.name)
    for kind, (name, target) in ACTIONS.items():
        assert issubclass(kind, TicketedCommand)
        assert "." in name
        closure = [cell.cell_contents for cell in target.__closure__ or ()]
        for names in closure:
            assert set(names) <= {field.name for field in dataclasses.fields(kind)}
