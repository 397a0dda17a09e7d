"""The metrics of a replica that follows: who may read them."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest

from domain.access import Password
from domain.errors import ErrorCode, Failure
from gateway.node.remote.standby_watch import WATCH, StandbyWatch
from gateway.observe.metrics import Snapshot
from gateway.runtime.waiting.standby_page import Question, Refusal
from protocols.hosts import Hosts

SNAPSHOT = Snapshot(counters={"replica_leads": 0})


class Principal:
    """A user; Super users are privileged."""

    def __init__(self, name: str, privileged: bool) -> None:
        self.name, self.privileged = name, privileged


class Users:
    """`Access` with some users, all with the password `secret`; `watchers` have the right to look."""

    def __init__(self, watchers: str = "", supers: str = "", others: str = "") -> None:
        self.watchers, self.supers, self.others = watchers.split(), supers.split(), others.split()

    def authenticate(self, credentials: Password | None, _peer: str) -> Principal | Failure:
        known = [*self.watchers, *self.supers, *self.others]
        if credentials is None or credentials.user not in known or credentials.secret != b"secret":
            return Failure(ErrorCode.NOT_AUTHENTICATED, "who are you?")
        return Principal(credentials.user, credentials.user in self.supers)

    def verdict(self, principal: Principal, need: object) -> Failure | None:
        assert need is WATCH
        return None if principal.name in self.watchers else Failure(ErrorCode.NOT_ALLOWED, "no")


def asked(users: list[Users], name: str = "", host: str = "") -> int:
    """200, or the status of the refusal."""
    watch = StandbyWatch(Hosts((), ""), lambda: cast(Any, users), lambda: SNAPSHOT)
    given = "Basic " + base64.b64encode(f"{name}:secret".encode()).decode() if name else ""
    found = watch.ask(Question(given, "127.0.0.1", host))
    if isinstance(found, Refusal):
        return found.status
    assert found is SNAPSHOT
    return 200


@pytest.mark.parametrize(("name", "status"), [("", 401), ("nobody", 401), ("other", 403), ("watcher", 200), ("root", 200)])
def test_users_of_the_log_and_of_the_replica_may_read_with_the_right_for_it(name: str, status: int) -> None:
    of_the_log = Users(watchers="watcher", others="other")
    of_the_replica = Users(supers="root")
    assert asked([of_the_log, of_the_replica], name) == status
    assert asked([of_the_replica], name) == (200 if name == "root" else 401), "readers are not served"


def test_everybody_may_where_access_is_not_controlled_by_a_name_of_the_node() -> None:
    assert asked([]) == 200
    assert asked([], host="127.0.0.1:8088") == 200
    assert asked([], host="evil.example") == 421
