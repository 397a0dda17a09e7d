"""Security contexts of OSCORE: how they are kept, who they prove, and the numbers that processes take."""

from __future__ import annotations

import dataclasses

import pytest

from domain.access.access import ContextProof, User
from domain.access.oscore import OscoreContext
from domain.access.principal import Principal
from domain.admin.oscore import (
    RUNS_MAX,
    DeleteOscoreContext,
    HoldOscoreContext,
    OscoreContextFound,
    OscoreRunReserved,
    PutOscoreContext,
    QueryOscoreContext,
    ReserveOscoreRun,
)
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Refused
from domain.store.store_ports import StateChange
from gateway.access.administration import ContextAdministration
from gateway.access.authority import Access
from gateway.access.contexts import SKIPPED, SPACE
from gateway.access.records import AccessRecords
from gateway.connection.client_connection import ClientConnection
from store.state.port import StoredState
from tests.connection_driver import RecordingDriver
from tests.gateway.access.memory import access_config
from tests.stored_state import memory_state, pairs

HOST = "10.0.0.1"


def context(user: str = "ann", device: bytes = b"\x01", secret: bytes = b"s" * 16) -> OscoreContext:
    return OscoreContext(user, device, b"\x00", secret, b"salt", b"floor")


class Desk:
    """Records over a state, and what changes them. `principal`: who asks."""

    def __init__(self, state: StoredState | None = None) -> None:
        self.state = state or memory_state()
        self.records = AccessRecords(self.state)
        self.access = Access(self.records, access_config({}), lambda: 0)
        self.verbs = ContextAdministration(self.records).verbs
        self.principal: Principal | None = None

    def user(self, name: str = "ann", enabled: bool = True, privileged: bool = False) -> None:
        self.records.put_user(User(name, "secret", privileged, enabled), lambda _: None)

    def ask(self, command: Command) -> Event:
        driver = RecordingDriver()
        connection = ClientConnection("http", driver)
        connection.principal = self.principal
        self.verbs[type(command)](connection, command)
        (event,) = driver.recorded
        return event

    def put(self, given: OscoreContext) -> Event:
        return self.ask(PutOscoreContext("t", given))

    def run(self, user: str = "ann") -> int:
        event = self.ask(ReserveOscoreRun("t", user))
        assert isinstance(event, OscoreRunReserved)
        return event.run


def refusal(event: Event) -> ErrorCode:
    assert isinstance(event, Refused)
    return event.failure.code


def test_a_context_proves_its_user_as_long_as_it_is_the_same() -> None:
    desk = Desk()
    desk.user()
    assert isinstance(desk.put(context()), Done)
    assert desk.access.contexts.find(b"\x01", b"floor") == context()
    assert desk.access.contexts.find(b"\x01", None) is None
    proof = ContextProof("ann", context().digest)
    principal = desk.access.authenticate(proof, HOST)
    assert isinstance(principal, Principal)
    assert (principal.user, desk.access.current(principal)) == ("ann", None)
    desk.put(context(secret=b"t" * 16))
    fallen = desk.access.current(principal)
    assert fallen is not None
    assert fallen.code is ErrorCode.NOT_AUTHENTICATED
    assert isinstance(desk.access.authenticate(proof, HOST), Failure)


def test_a_change_of_the_password_leaves_the_context() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    principal = desk.access.authenticate(ContextProof("ann", context().digest), HOST)
    assert isinstance(principal, Principal)
    desk.records.put_user(User("ann", "changed"), lambda _: None)
    assert desk.access.current(principal) is None


def test_the_context_of_a_disabled_or_removed_user_proves_nobody() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    proof = ContextProof("ann", context().digest)
    principal = desk.access.authenticate(proof, HOST)
    assert isinstance(principal, Principal)
    desk.user(enabled=False)
    assert isinstance(desk.access.authenticate(proof, HOST), Failure)
    assert desk.access.current(principal) is not None
    desk.user()
    desk.records.drop_user("ann", lambda _: None)
    assert isinstance(desk.access.authenticate(proof, HOST), Failure)
    assert [key for key, _ in pairs(desk.state, SPACE) if key[:1] == b"c"] == []


def test_a_principal_of_a_gateway_is_judged_by_the_store_alike() -> None:
    here, there = Desk(), Desk()
    for desk in (here, there):
        desk.user()
        desk.put(context())
    principal = here.access.authenticate(ContextProof("ann", context().digest), HOST)
    assert isinstance(principal, Principal)
    assert there.access.current(principal) is None
    there.ask(DeleteOscoreContext("t", "ann"))
    assert there.access.current(principal) is not None


def test_what_cannot_be_a_context_is_refused() -> None:
    desk = Desk()
    desk.user()
    desk.user("bob")
    assert refusal(desk.put(context("nobody"))) is ErrorCode.ARGUMENT_ILLEGAL
    given = context()
    for change in (
        {"secret": b"short"}, {"device_id": b"x" * 8}, {"node_id": b"\x01"}, {"algorithm": 2}, {"salt": b"s" * 65},
        {"id_context": b"i" * 65}, {"device_id": b"x" * 7, "algorithm": 1},
    ):  # fmt: skip
        assert refusal(desk.put(dataclasses.replace(given, **change))) is ErrorCode.ARGUMENT_ILLEGAL
    desk.put(given)
    assert refusal(desk.put(context("bob"))) is ErrorCode.ARGUMENT_ILLEGAL
    assert isinstance(desk.put(context("bob", b"\x02")), Done)


def test_nobody_is_told_secrets() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    event = desk.ask(QueryOscoreContext("t", "ann"))
    assert isinstance(event, OscoreContextFound)
    assert event.context == dataclasses.replace(context(), secret=b"", salt=b"")
    nothing = desk.ask(QueryOscoreContext("t", "bob"))
    assert isinstance(nothing, OscoreContextFound)
    assert nothing.context is None


def test_only_super_users_change_the_context_of_one() -> None:
    desk = Desk()
    desk.user("root", privileged=True)
    desk.principal = Principal("ann", HOST)
    assert refusal(desk.put(context("root"))) is ErrorCode.NOT_ALLOWED
    assert refusal(desk.ask(DeleteOscoreContext("t", "root"))) is ErrorCode.NOT_ALLOWED
    desk.principal = Principal("root", HOST, True)
    assert isinstance(desk.put(context("root")), Done)


def test_no_run_is_given_twice_whatever_ends_between() -> None:
    desk = Desk()
    desk.user()
    desk.user("bob")
    desk.put(context())
    given = [desk.run() for _ in range(3)]
    assert given == [given[0], given[0] + 1, given[0] + 2]
    desk = Desk(desk.state)
    given += [desk.run(), desk.run()]
    assert given[3] >= given[2] + SKIPPED
    desk.ask(DeleteOscoreContext("t", "ann"))
    assert refusal(desk.ask(ReserveOscoreRun("t", "ann"))) is ErrorCode.ARGUMENT_ILLEGAL
    desk.put(context("bob"))  # the same keys, under another name
    given.append(desk.run("bob"))
    desk.records.drop_user("bob", lambda _: None)
    desk = Desk(desk.state)
    desk.put(context())
    given.append(desk.run())
    assert sorted(set(given)) == given


def test_a_context_ends_with_its_numbers() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    desk.state.put([StateChange(SPACE, b"rann", b'{"last":%d,"holder":0}' % RUNS_MAX)], None)
    assert refusal(desk.ask(ReserveOscoreRun("t", "ann"))) is ErrorCode.QUOTA


def test_of_two_processes_only_one_holds_a_context() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    one, two = desk.run(), desk.run()
    assert isinstance(desk.ask(HoldOscoreContext("t", "ann", one, 0)), Done)
    assert desk.records.contexts.holder("ann") == one
    assert refusal(desk.ask(HoldOscoreContext("t", "ann", two, 0))) is ErrorCode.CHANGED
    assert isinstance(desk.ask(HoldOscoreContext("t", "ann", two, one)), Done)
    assert Desk(desk.state).records.contexts.holder("ann") == two
    assert refusal(desk.ask(HoldOscoreContext("t", "bob", one, 0))) is ErrorCode.ARGUMENT_ILLEGAL


def test_a_copy_of_the_records_changes_nothing() -> None:
    desk = Desk()
    desk.user()
    desk.put(context())
    copy = AccessRecords(None, followed=desk.state)
    assert copy.contexts.find(b"\x01", b"floor") == context()
    told: list[object] = []
    copy.contexts.put(context(), told.append)
    copy.contexts.reserve("ann", told.append)
    assert [found.code for found in told if isinstance(found, Failure)] == [ErrorCode.NOT_SUPPORTED] * 2


@pytest.mark.parametrize("field", ["user", "device_id", "node_id", "secret", "salt", "id_context", "algorithm"])
def test_the_digest_changes_with_every_field(field: str) -> None:
    given = context()
    other = {"user": "bob", "algorithm": 30, "id_context": None}.get(field, b"another")
    assert dataclasses.replace(given, **{field: other}).digest != given.digest  # type: ignore[arg-type]
