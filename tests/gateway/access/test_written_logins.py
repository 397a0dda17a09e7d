"""Which logins the authority tells the audit log of, and by what name."""

from __future__ import annotations

import jwt
import pytest

from domain.access.access import BearerToken, Password
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from gateway.connection.client_connection import ClientConnection
from gateway.guard.failed_logins import FailedLogins
from gateway.guard.settings import LimitsSettings
from tests.gateway.access.test_gate import HOST, SECRET, Scene


class Told:
    """A trail that keeps (user, code of the outcome; None: it has succeeded)."""

    def __init__(self) -> None:
        self.logins: list[tuple[str, ErrorCode | None]] = []

    def login(self, host: str, user: str, failure: Failure | None) -> None:
        assert host == HOST
        self.logins.append((user, None if failure is None else failure.code))

    def refused(self, connection: ClientConnection, principal: Principal, what: str, failure: Failure) -> None:
        raise AssertionError("nobody has asked for anything")


@pytest.fixture
def told() -> tuple[Scene, Told]:
    scene, told = Scene(), Told()
    scene.access.audit = told
    scene.access.logins = FailedLogins(LimitsSettings(), lambda: 10**15)
    return scene, told


def test_logins_that_are_not_looked_at_have_no_names_of_a_guessers_choice(told: tuple[Scene, Told]) -> None:
    scene, trail = told
    for number in range(1_000):
        scene.access.authenticate(Password(f"u{number}", b"guess"), HOST)
    assert len(set(trail.logins)) == 11, "ten that were looked at, and one kind for all others"
    assert trail.logins[-1] == ("", ErrorCode.RATE)


def test_a_token_is_one_login_each_time(told: tuple[Scene, Told]) -> None:
    scene, trail = told
    token = BearerToken(jwt.encode({"sub": "carol", "exp": 10**9}, SECRET, algorithm="HS256"))
    scene.access.authenticate(token, HOST)
    scene.access.authenticate(token, HOST)
    assert [outcome for _, outcome in trail.logins] == [None, None]


def test_what_a_user_has_left_to_be_done_is_no_login(told: tuple[Scene, Told]) -> None:
    scene, trail = told
    assert isinstance(scene.access.left_by("carol", HOST, False), Principal)
    assert isinstance(scene.access.left_by("alice", HOST, True), Principal)
    assert trail.logins == []


def test_a_certificate_is_written_when_it_is_first_seen(told: tuple[Scene, Told]) -> None:
    scene, trail = told
    for _ in range(3):
        scene.access.authenticate(None, HOST, "device-7")
    assert trail.logins == [("device-7", None)]
