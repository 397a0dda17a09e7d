"""How a process divides its file descriptors."""

from __future__ import annotations

import pytest

from gateway.guard.descriptors import (
    ADMIN,
    CLIENTS,
    LINKS,
    NO_LIMIT,
    PART_SHARES,
    PROCESS,
    STORE,
    lowered,
    rooms,
    sinks_max,
)
from gateway.node.roles.role_names import CONTROLLER, GATEWAY, NAMESERVER, REPLICA, parts_of
from gateway.node.roles.role_names import STORE as STORE_ROLE
from gateway.runtime.admin.port import CONNECTIONS_MAX
from gateway.runtime.spare_descriptors import HELD
from store.log.segment import OPEN_FILES_MAX


def test_what_the_process_opens_itself_is_kept_for_it() -> None:
    room = rooms(20_000, [], True, 1_250, False)[CLIENTS]
    assert 20_000 - room >= STORE + ADMIN + PROCESS + LINKS + 1_250
    assert room > 16_000
    assert 2 * OPEN_FILES_MAX <= STORE
    assert (CONNECTIONS_MAX, HELD < PROCESS) == (ADMIN, True)


@pytest.mark.parametrize(("limit", "room"), [(64, 13), (300, 60), (1_024, 416), (4_096, 3_296), (65_536, 60_896)])
def test_under_a_small_limit_a_fifth_of_it_is_for_connections(limit: int, room: int) -> None:
    assert rooms(limit, [], True, sinks_max(4_096, limit), False)[CLIENTS] == room


def test_parts_have_connections_of_their_own_and_all_together_no_more_than_there_are() -> None:
    parts = [CONTROLLER, REPLICA, NAMESERVER]
    alone = rooms(20_000, [], True, 0, False)[CLIENTS]
    found = rooms(20_000, parts, True, 0, False)
    assert set(found) == {CLIENTS, *parts}
    assert alone - 3 * 32 - 1 <= sum(found.values()) <= alone
    assert found[CLIENTS] > alone // 3
    assert min(found.values()) > alone // 10


@pytest.mark.parametrize(
    ("roles", "replicated"),
    [({GATEWAY, STORE_ROLE, NAMESERVER, CONTROLLER}, True), ({GATEWAY, NAMESERVER, CONTROLLER}, False)],
)
def test_each_part_of_a_process_has_a_share(roles: set[str], replicated: bool) -> None:
    assert set(parts_of(frozenset(roles), replicated)) <= set(PART_SHARES)


def test_a_client_that_is_passed_on_to_a_broker_takes_two() -> None:
    assert rooms(20_000, [], False, 0, True)[CLIENTS] == rooms(20_000, [], False, 0, False)[CLIENTS] // 2


def test_connections_to_sinks_leave_most_of_the_limit_to_others() -> None:
    assert [sinks_max(4_096, limit) for limit in (4, 1_024, 20_000, 1 << 20)] == [1, 64, 1_250, 4_096]


def test_a_setting_for_which_there_are_too_few_is_told_with_what_to_do() -> None:
    found = lowered(100_000, {CLIENTS: 150, CONTROLLER: 20}, 300)
    for word in ("connections_max is 100000", "150 of clients", "20 of the controller", "300 files", "LimitNOFILE"):
        assert word in found
    assert "of clients" not in lowered(100, {CLIENTS: 150, CONTROLLER: 20}, 300)
    assert lowered(20, {CLIENTS: 150, CONTROLLER: 20}, 300) == ""
    assert lowered(10_000_000, rooms(1 << 30, [CONTROLLER], True, 4_096, False), 1 << 30) == ""
    assert NO_LIMIT > 10_000_000
