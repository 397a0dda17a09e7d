"""The settings of access: what turns it on, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.access.bootstrap import open_access
from gateway.access.settings import AccessSettings
from gateway.node.composition import known
from gateway.node.settings import load
from tests.gateway.access.memory import access_config
from tests.stored_state import memory_state

ADMIN = "root:s3cret"


def test_an_admin_controls_access_and_opens_other_addresses(tmp_path: Path) -> None:
    assert load({"host": "0.0.0.0", "admin": ADMIN}, {}, known()).controlled
    assert load({}, {"HEADGATE_ADMIN": ADMIN}, known()).controlled
    file = tmp_path / "admin"
    file.write_text(ADMIN + "\n")
    assert load({"admin_file": str(file)}, {}, known()).admin == ADMIN
    assert not load({}, {}, known()).controlled
    off = {"HEADGATE_ACCESS_ENABLED": "false", "HEADGATE_ADMIN": ADMIN}
    assert not load({}, off, known()).controlled
    with pytest.raises(ConfigError, match="--admin NAME:PASSWORD"):
        load({"host": "0.0.0.0"}, off, known())
    with pytest.raises(ConfigError, match="cannot be read"):
        load({"admin_file": str(tmp_path / "nothing")}, {}, known())


def test_secrets_are_not_shown() -> None:
    config = load({"admin": ADMIN}, {"HEADGATE_ACCESS_JWT_SECRET": "s3cret" * 8}, known())
    assert not any("s3cret" in value for _, value, _ in config.rows())


@pytest.mark.parametrize("admin", ["root", ":s3cret", "root:", "a b:s3cret", "a/b:s3cret"])
def test_what_is_no_admin_is_refused_without_its_password(admin: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_access(AccessSettings(), admin, True, memory_state(), lambda: 0, "c1")
    assert "s3cret" not in str(refused.value)


def test_access_without_anybody_is_refused() -> None:
    with pytest.raises(ConfigError, match="nobody is known"):
        open_access(AccessSettings(), "", True, memory_state(), lambda: 0, "c1")


def test_the_admin_is_kept_and_gets_the_password_that_is_given() -> None:
    state = memory_state()
    open_access(AccessSettings(), ADMIN, True, state, lambda: 0, "c1")
    records, access = open_access(AccessSettings(), "root:other", True, state, lambda: 0, "c1")
    assert access is not None
    assert records.users["root"].password == "other"
    assert records.users["root"].privileged
    again, none = open_access(AccessSettings(), "", False, state, lambda: 0, "c1")
    assert none is None
    assert again.users == records.users


@pytest.mark.parametrize(
    "table",
    [
        {"enable": True}, {"enabled": "yes"}, {"anonymous": 1}, {"jwt_secret": "short"}, {"rules": {"filter": "a"}},
        {"rules": [{"filter": "a/#/b"}]}, {"policies": [{"subject": "alice", "resource": "*", "actions": ["All"]}]},
        {"policies": [{"subject": "User:alice", "resource": "x", "actions": ["All"]}]},
        {"policies": [{"subject": "User:alice", "resource": "*", "actions": "All"}]},
        {"policies": [{"subject": "User:alice", "resource": "*", "actions": ["All"], "more": 1}]},
    ],
)  # fmt: skip
def test_what_is_no_setting_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        access_config(table)
