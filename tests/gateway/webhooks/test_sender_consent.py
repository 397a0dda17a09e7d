"""Consent to senders of WebHooks at their callback URLs: few tries, and bounds, since anybody can send a handshake."""

from __future__ import annotations

import pytest

from domain.limits import SECOND_NS
from domain.subscription.courier import Trouble
from gateway.webhooks.sender_consent import CALLS_PER_MINUTE, PENDING_MAX, TRIES_MAX, SenderConsent
from tests.gateway.webhooks.held_courier import HeldCourier
from tests.simulation.kit.clock import VirtualClock

URL = "https://hooks.example.com/confirm?key=1"


@pytest.fixture
def courier() -> HeldCourier:
    return HeldCourier()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def granting(courier: HeldCourier, clock: VirtualClock) -> SenderConsent:
    found = SenderConsent(clock)
    found.courier = courier
    return found


@pytest.mark.parametrize(("rate", "said"), [(60, "60"), (0, "*")])
def test_a_sender_is_told_the_origin_and_the_rate(granting: SenderConsent, courier: HeldCourier, rate: int, said: str) -> None:
    granting.grant(URL, "a.example", rate)
    (request,) = courier.sent
    assert (request.method, request.url, request.body) == ("POST", URL, b"")
    assert dict(request.fields) == {"webhook-allowed-origin": "a.example", "webhook-allowed-rate": said}
    courier.answer(204)
    assert (granting.granted, granting.failed, granting.dropped) == (1, 0, 0)


def test_a_sender_that_cannot_be_reached_is_tried_a_few_times(
    granting: SenderConsent, courier: HeldCourier, clock: VirtualClock
) -> None:
    granting.grant(URL, "a.example", 0)
    for status, trouble in ((503, None), (0, Trouble.TIMEOUT), (429, None), (500, None)):
        courier.answer(status, trouble)
        clock.run_ns(60 * SECOND_NS)
    assert (len(courier.sent), granting.failed) == (TRIES_MAX, 1)
    granting.grant(URL, "a.example", 0)
    courier.answer(503)
    clock.run_ns(2 * SECOND_NS)
    courier.answer(200)
    assert (granting.granted, granting.failed) == (1, 1)


@pytest.mark.parametrize(("status", "trouble"), [(404, None), (410, None), (302, None), (0, Trouble.REFUSED_ADDRESS)])
def test_an_answer_that_will_not_change_ends_it(
    granting: SenderConsent, courier: HeldCourier, clock: VirtualClock, status: int, trouble: Trouble | None
) -> None:
    granting.grant(URL, "a.example", 0)
    courier.answer(status, trouble)
    clock.run_ns(600 * SECOND_NS)
    assert (len(courier.sent), granting.failed) == (1, 1)


def test_a_flood_of_handshakes_costs_few_requests(granting: SenderConsent, courier: HeldCourier, clock: VirtualClock) -> None:
    for _ in range(100):
        granting.grant(URL, "a.example", 0)
    assert (len(courier.sent), granting.dropped) == (1, 0)
    for number in range(1_000):
        granting.grant(f"{URL}{number}", "a.example", 0)
        courier.answer(200)
    assert len(courier.sent) == CALLS_PER_MINUTE
    assert granting.dropped == 1_001 - CALLS_PER_MINUTE
    clock.run_ns(60 * SECOND_NS)
    granting.grant(URL, "a.example", 0)
    assert len(courier.sent) == CALLS_PER_MINUTE + 1


def test_few_are_unfinished_at_a_time(granting: SenderConsent, courier: HeldCourier, clock: VirtualClock) -> None:
    for number in range(3 * PENDING_MAX):
        granting.grant(f"{URL}{number}", "a.example", 0)
        clock.run_ns(2 * SECOND_NS)
    assert len(courier.sent) == PENDING_MAX
    assert granting.dropped == 2 * PENDING_MAX


def test_without_a_courier_nothing_is_sent_and_it_is_counted(clock: VirtualClock) -> None:
    granting = SenderConsent(clock)
    granting.grant(URL, "a.example", 0)
    assert granting.figures()["webhook_consents_dropped_total"] == 1
