"""The limits of connections that are open at once: admission by address, and the share of unauthenticated clients."""

from __future__ import annotations

from gateway.connection.connection_limits import ConnectionAdmission, ConnectionLimits
from gateway.connection.transport import AdmissionCheck
from tests.gateway.connection.test_admission import Bouncer


def limits(
    check: AdmissionCheck | None = None, proxy: str = "", connections_max: int = 9, controlled: bool = False
) -> ConnectionLimits:
    """Limits; `proxy` is the address of a proxy."""
    return ConnectionLimits(connections_max, check, lambda host: host == proxy, controlled)


def test_a_connection_is_counted_once_and_leaves_once() -> None:
    doors = Bouncer(9)
    admission = ConnectionAdmission(limits(doors))
    assert admission.enter("10.0.0.1", 0) == ""
    assert admission.enter("10.0.0.1", 0) == ""
    assert doors.inside == ["10.0.0.1"]
    admission.leave()
    admission.leave()
    assert doors.inside == []


def test_a_refused_connection_is_told_why_and_does_not_leave() -> None:
    doors = Bouncer(0)
    admission = ConnectionAdmission(limits(doors))
    assert admission.enter("10.0.0.1", 0) == "connect-rate"
    admission.leave()


def test_behind_a_proxy_the_address_of_the_client_is_admitted() -> None:
    doors = Bouncer(9)
    admission = ConnectionAdmission(limits(doors, proxy="10.9.9.9"))
    assert admission.enter("10.9.9.9", 0) == ""
    assert doors.inside == []
    assert admission.enter("10.0.0.1", 0) == ""
    assert doors.inside == ["10.0.0.1"]


def test_without_limits_everybody_is_admitted() -> None:
    admission = ConnectionAdmission(limits())
    assert admission.enter("10.0.0.1", 0) == ""
    admission.leave()


def enter(found: ConnectionLimits, host: str, count: int) -> tuple[list[ConnectionAdmission], str]:
    """Connections from `host` until one of `count` is refused -> (those that are admitted, why it is; "": none)."""
    inside: list[ConnectionAdmission] = []
    for _ in range(count):
        each = ConnectionAdmission(found)
        reason = each.enter(host, 0)
        if reason:
            return inside, reason
        inside.append(each)
    return inside, ""


def test_half_of_the_connections_are_for_clients_that_have_not_authenticated_and_half_of_these_for_one_host() -> None:
    found = limits(connections_max=80, controlled=True)
    one, reason = enter(found, "10.0.0.1", 80)
    assert (len(one), reason) == (20, "unauthenticated-connections")
    others = [enter(found, f"10.0.0.{number}", 80)[0] for number in range(2, 20)]
    assert 36 <= len(one) + sum(map(len, others)) <= 40
    assert enter(found, "10.0.1.1", 1)[1] == "unauthenticated-connections"
    one.clear()
    assert len(enter(found, "10.0.1.1", 80)[0]) == 10, "and there is always room for another one"


def test_a_client_that_has_authenticated_or_gone_makes_room_for_another_one() -> None:
    found = limits(connections_max=16, controlled=True)
    inside, reason = enter(found, "10.0.0.1", 16)
    assert (len(inside), reason) == (4, "unauthenticated-connections")
    inside[0].unknown = None  # as a pump does
    assert enter(found, "10.0.0.1", 2)[1] == "unauthenticated-connections"
    inside += enter(found, "10.0.0.1", 1)[0]
    assert len(inside) == 5
    inside[1].leave()
    assert enter(found, "10.0.0.1", 1)[1] == ""


def test_where_access_is_not_controlled_nobody_has_to_authenticate() -> None:
    assert len(enter(limits(connections_max=4), "10.0.0.1", 100)[0]) == 100


def test_a_proxy_s_connections_count_among_all_until_the_clients_are_known_and_then_by_their_addresses() -> None:
    found = limits(connections_max=80, proxy="10.9.9.9", controlled=True)
    inside, reason = enter(found, "10.9.9.9", 80)
    assert (len(inside), reason) == (40, "unauthenticated-connections")
    for each in inside[:30]:
        each.leave()
    reasons = [each.enter("10.0.0.1", 0) for each in inside[30:]]
    assert reasons == [""] * 10
    assert len(enter(found, "10.9.9.9", 80)[0]) == 30


def test_a_connection_that_is_refused_for_another_reason_is_not_counted() -> None:
    found = limits(Bouncer(0), connections_max=16, controlled=True)
    for _ in range(20):
        assert ConnectionAdmission(found).enter("10.0.0.1", 0) == "connect-rate"
    assert found.unauthenticated is not None
    assert found.unauthenticated.bytes_held == 0


def test_the_bound_follows_the_number_of_connections() -> None:
    found = limits(connections_max=80, controlled=True)
    inside, _ = enter(found, "10.0.0.1", 80)
    found.limit(160)
    assert len(enter(found, "10.0.0.1", 80)[0]) == 20
    assert len(inside) == 20
