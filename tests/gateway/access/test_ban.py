"""Bans: valid entries, and entries that are refused."""

from __future__ import annotations

import pytest

from domain.errors import ConfigError
from gateway.access.ban import BANNED, Bans
from tests.gateway.access.memory import access_config


@pytest.mark.parametrize(
    ("word", "banned"),
    [
        ("client:c", [True, False]), ("client:other", [False, False]),
        ("user:alice", [True, False]), ("user:ali", [False, False]),
        ("session:alice/c", [True, False]), ("session:bob/c", [False, False]), ("session:bob/d", [False, True]),
        ("address:10.0.0.0/8", [True, False]), ("address:10.0.0.2", [False, False]), ("client:bob", [False, False]),
    ],
)  # fmt: skip
def test_each_word_bans_what_it_names(word: str, banned: list[bool]) -> None:
    bans = Bans([word])
    found = [bans.of("alice", "c", "10.0.0.1"), bans.of("bob", "d", "192.0.2.1")]
    assert [failure is not None for failure in found] == banned
    assert all(failure.word == BANNED for failure in found if failure is not None)


@pytest.mark.parametrize(
    "word", ["c", "client:", "session:alice", "session:alice/", "session:/c", "topic:t", "address:here", "address:"]
)
def test_what_is_none_of_them_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=r"access\.banned"):
        access_config({"banned": [word]})


def test_nobody_is_banned_where_nothing_is_said() -> None:
    assert access_config({}).banned.of("alice", "c", "10.0.0.1") is None
